"""Tests of 01.8, complex multiplication."""

from course.challenge import challenge
from course.inputs import cases, integers, randn

puzzle = challenge("complex_multiply")


def whole(N):
    return integers(N) + 1j * integers(N)


@cases(one_block=1024, several_blocks=8192, single_element=1)
def test_shapes(N):
    puzzle.check(whole(N), whole(N))


@cases(last_block_of_one=1025, one_short_of_a_block=1023, ragged=20001)
def test_masks(N):
    puzzle.check(whole(N), whole(N))


def test_numerics_of_each_part():
    i, one = 1j * integers(50, low=1), integers(50, low=1)
    puzzle.check(i, i)
    puzzle.check(i, one.to(i.dtype))


def test_numerics():
    puzzle.check(randn(3000, dtype="complex64"), randn(3000, dtype="complex64"))


def test_traffic():
    x, y = randn(5000, dtype="complex64"), randn(5000, dtype="complex64")
    puzzle.traffic(x, y).check(reads={"x": 1, "y": 1}, writes=1, launches=1, sectors=1.1)


def test_compiles():
    puzzle.compiles(randn(5000, dtype="complex64"), randn(5000, dtype="complex64"))


def test_speedup():
    x, y = randn(2**25, dtype="complex64"), randn(2**25, dtype="complex64")
    puzzle.race(x, y, at_least=0.3)
