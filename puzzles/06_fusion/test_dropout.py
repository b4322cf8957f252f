"""Tests of 06.3, dropout."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn

puzzle = challenge("dropout")


@cases(several_blocks=8192, one_block=1024, single_element=1)
def test_shapes(N):
    puzzle.check(integers(N, low=1), 0.5, 5)


@cases(one_short_of_a_block=1023, one_past_a_block=1025, ragged=20001)
def test_masks(N):
    puzzle.check(integers(N, low=1), 0.5, 11)


@cases(a_quarter=0.25, most=0.9, nothing=0.0)
def test_numerics_probability(p):
    puzzle.check(integers(500, low=1), p, 2)


@cases(small=3, one=1, of_64_bits=2**62 + 3)
def test_numerics_seed(seed):
    puzzle.check(integers(500, low=1), 0.5, seed)


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(3000, dtype=dtype), 0.1, 42)


def test_numerics_scale_in_float32():
    # 1 / (1 - p) lies halfway between two numbers of bfloat16.
    puzzle.check(randn(500, dtype="bfloat16"), 0.01158, 2)


def test_traffic():
    puzzle.traffic(randn(5000), 0.5, 1).check(
        reads={"x": 1}, writes=1, launches=1, sectors=1.1, total_writes=5000
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(5000, dtype=dtype), 0.5, 123)


def test_speedup():
    puzzle.race(randn(2**26), 0.5, 123, at_least=0.9, baseline="eager_dropout")
