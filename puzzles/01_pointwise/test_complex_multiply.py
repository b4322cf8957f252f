"""What 01.6, complex multiplication, must do to be solved."""

from judge.challenge import challenge
from judge.inputs import cases, integers, randn

puzzle = challenge("complex_multiply")


def two(N):
    return randn(N, dtype="complex64"), randn(N, dtype="complex64")


def two_of_whole_numbers(N):
    return integers(N) + 1j * integers(N), integers(N) + 1j * integers(N)


@cases(one_block=1024, several_blocks=8192, single_element=1)
def test_shapes(N):
    puzzle.check(*two_of_whole_numbers(N))


@cases(last_block_of_one=1025, one_short_of_a_block=1023, ragged=20001)
def test_masks(N):
    puzzle.check(*two_of_whole_numbers(N))


def test_numerics_of_each_part():
    i, one = 1j * integers(50, low=1), integers(50, low=1)
    puzzle.check(i, i)
    puzzle.check(i, one.to(i.dtype))


def test_numerics():
    puzzle.check(*two(3000))


def test_traffic():
    puzzle.traffic(*two(5000)).check(reads={"x": 1, "y": 1}, writes=1, launches=1, sectors=1.1)


def test_compiles():
    puzzle.compiles(*two(5000))


def test_speedup():
    puzzle.race(*two(2**25), at_least=0.3)
