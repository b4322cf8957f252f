"""What 03.3, total sum, is held to."""

import pytest

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor, uniform

puzzle = challenge("total_sum", deterministic=True)


@cases(
    scalar=((),),
    single_element=((1,),),
    vector=((1000,),),
    matrix=((33, 41),),
    four_dimensions=((3, 1, 5, 77),),
    six_dimensions=((2, 3, 1, 2, 3, 4),),
    nothing=((0,),),
    empty_dimension=((4, 0, 3),),
)
def test_shapes(shape):
    puzzle.check(randn(*shape))


def test_shapes_of_bad_input():
    puzzle.rejects(ValueError, integers(10, dtype="int32"), naming="x")


@cases(
    one_short_of_a_block=1023,
    one_past_a_block=1025,
    last_block_of_one=2**15 + 1,
    more_elements_than_any_block=2**20 + 1,
)
def test_masks(N):
    puzzle.check(integers(N, low=1))


def test_masks_many_blocks():
    # More than 1024 programs of 1024 elements, and more than 4096 of 8192.
    puzzle.check(randn(2**21 + 77))
    puzzle.check_grid(integers(1, low=1).expand(2**25 + 77))


@cases(transposed=(1, 0, 2, 3), reversed=(3, 2, 1, 0), rotated=(1, 2, 3, 0))
def test_masks_permuted(a, b, c, d):
    puzzle.check(integers(3, 4, 5, 21, low=1).permute(a, b, c, d))


def test_masks_gaps():
    puzzle.check(strided(integers(3, 4, 5, 6, low=1), 2, 1, 3, 2))


def test_masks_gaps_in_five_dimensions():
    puzzle.check(integers(3, 4, 5, 6, 7, low=1).permute(4, 2, 0, 1, 3)[::2, :, :, ::3])


def test_masks_unaligned():
    puzzle.check(offset(integers(20, 301, low=1)))


def test_masks_expanded():
    puzzle.check(integers(7, 1, 30, low=1).expand(7, 20, 30))


def test_masks_offsets_beyond_32_bits():
    puzzle.check(far_apart(integers(3, low=1, dtype="float16")))


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(randn(50, 1000, dtype=dtype))


@dtypes("float16", "bfloat16")
def test_numerics_accumulator_in_half_precision(dtype):
    puzzle.check(uniform(30000, low=0.5, high=1.5, dtype=dtype))


@dtypes("float16", "bfloat16")
def test_numerics_partial_sums_in_half_precision(dtype):
    x = uniform(70000, low=1, high=2, dtype=dtype)
    x[35000:] *= -1
    puzzle.check(x)


@cases(small=1.0, large=1e4)
def test_numerics_same_bits_in_any_order(scale):
    puzzle.check(randn(150_000) * scale)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_numerics_special_values(value):
    x = randn(5000)
    x[4321] = value
    puzzle.check(x)
    puzzle.check(tensor([value, 0.0, -value]))


def test_traffic():
    N = 50_000
    puzzle.traffic(randn(N)).check(
        reads={"x": 1}, total_reads=1.01 * N, total_writes=0.01 * N, launches=2, sectors=1.1
    )


def test_traffic_transposed_with_gaps():
    puzzle.traffic(strided(randn(250, 200), 2, 3).T).check(reads={"x": 1}, launches=2)


@dtypes("bfloat16", "float32")
def test_compiles(dtype):
    puzzle.compiles(randn(50, 1000, dtype=dtype))


def test_compiles_gaps_in_five_dimensions():
    puzzle.compiles(randn(3, 4, 5, 6, 7).permute(4, 2, 0, 1, 3)[::2, :, :, ::3])


def test_speedup():
    puzzle.race(randn(2**26), at_least=0.9)
