"""Tests of 03.3, total sum."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, uniform

puzzle = challenge("total_sum", deterministic=True)


@cases(
    vector=((1000,),),
    matrix=((33, 41),),
    four_dimensions=((3, 1, 5, 77),),
    single_element=((1,),),
)
def test_shapes(shape):
    puzzle.check(integers(*shape))


@cases(
    one_short_of_a_block=1023,
    one_past_a_block=1025,
    last_block_of_one=2**15 + 1,
    many_blocks=150_000,
)
def test_masks(N):
    puzzle.check(integers(N, low=1))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(50, 1000, dtype=dtype))


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    x = uniform(70000, low=1, high=2, dtype=dtype)
    x[35000:] *= -1
    puzzle.check(x)


def test_numerics_same_bits_in_any_order():
    puzzle.check(randn(100_000) * 1e4)


def test_traffic():
    N = 50_000
    puzzle.traffic(randn(N)).check(
        reads={"x": 1}, total_reads=1.01 * N, total_writes=0.01 * N, launches=2, sectors=1.1
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(50, 1000, dtype=dtype))


def test_speedup():
    puzzle.race(randn(2**26), at_least=0.3)
