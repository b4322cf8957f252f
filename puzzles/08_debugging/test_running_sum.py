"""Tests of 08.5, running sum."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, uniform

puzzle = challenge("running_sum", deterministic=True, names_causes=False)


@cases(one_block=1000, single_element=1, empty=0)
def test_shapes(N):
    puzzle.check(integers(N))


@cases(
    several_blocks=50_000,
    one_short_of_a_block=4095,
    one_past_a_block=4097,
)
def test_masks(N):
    puzzle.check(integers(N))


def test_masks_many_blocks():
    # Two seconds: more blocks than a small kernel adds up in one step.
    puzzle.check(integers(2**19 + 5))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(20_000, dtype=dtype))


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    # A carry in 16 bits loses what it is added to.
    puzzle.check(uniform(30_000, low=0.5, high=1.5, dtype=dtype))


def test_traffic():
    N = 100_000
    puzzle.traffic(randn(N)).check(
        total_reads=2.1 * N, total_writes=2.1 * N, scratch=1, sectors=1.1, programs_at_least=4
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(20_000, dtype=dtype))


def test_speedup():
    puzzle.race(randn(2**27), at_least=0.5)
