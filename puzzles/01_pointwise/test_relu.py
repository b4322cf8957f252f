"""Tests of 01.3, ReLU."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn

puzzle = challenge("relu")


@cases(one_block=1024, several_blocks=8192, single_element=1)
def test_shapes(N):
    puzzle.check(integers(N))


@cases(last_block_of_one=1025, one_short_of_a_block=1023, ragged=20001)
def test_masks(N):
    puzzle.check(integers(N))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(3000, dtype=dtype))


@cases(ragged=5000, whole_blocks=8192)
def test_traffic(N):
    puzzle.traffic(randn(N)).check(reads={"x": 1}, writes=1, launches=1, sectors=1.1, idle=0)


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    # More elements than a block may have.
    puzzle.compiles(randn(2**21, dtype=dtype))


def test_speedup():
    puzzle.race(randn(2**26), at_least=0.3)
