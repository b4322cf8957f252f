"""Tests of 19.1, Gluon copy."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn

puzzle = challenge("gluon_copy", exact=True)


@cases(one_block=1024, several_blocks=16384, single_element=1)
def test_shapes(N):
    puzzle.check(integers(N))


@cases(last_block_of_one=2049, one_short_of_a_block=1023, ragged=20001)
def test_masks(N):
    puzzle.check(integers(N))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(3000, dtype=dtype))


def test_traffic():
    puzzle.traffic(randn(5000)).check(reads={"x": 1}, writes=1, launches=1, sectors=1.1)


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    widest = ["128-bit loads", "128-bit stores"]
    puzzle.compiles(randn(16384, dtype=dtype), asked=widest)


def test_speedup():
    puzzle.race(randn(2**26), at_least=0.3)
