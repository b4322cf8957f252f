"""Tests of 19.3, barrier ring, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, cases, integers, offset, randn, strided
from course.values import special_values

puzzle = challenge("barrier_ring", capability=(9, 0))


def test_shapes_x_is_not_a_matrix():
    puzzle.check_or_raises(randn(8), names="x")
    puzzle.check_or_raises(randn(2, 8, 8), names="x")


def test_shapes_x_of_another_dtype():
    puzzle.check_or_raises(randn(8, 8).double(), names="x")


def test_masks_rows_of_a_larger_matrix():
    puzzle.check(integers(20, 1024)[:, 128:840])


@cases(long_rows=(3, 5000), longer_rows=(5, 11000))
def test_masks_long_rows(M, N):
    puzzle.check(integers(M, N))


@cases(
    not_aligned=lambda x: offset(x),
    gaps_in_the_rows=lambda x: strided(x, 1, 2),
    transposed=lambda x: x.T.contiguous().T,
    odd_rows=lambda x: x[:, :711].contiguous(),
    one_row_repeated=lambda x: x[:1].expand(x.shape),
)
def test_masks_what_tma_cannot_address(change):
    puzzle.check_or_raises(change(integers(16, 712)), names="x")


def test_masks_limits():
    puzzle.limits(lambda M, N: (integers(M, N),), dtypes=FLOATS, M=2**17, N=range(8, 2**17, 8))


@cases(**{f"many_rounds_{number}": number for number in range(40)})
def test_masks_other_orders(number):
    puzzle.check(integers(65 + number, 904))


test_numerics_each_special_value = special_values(puzzle, lambda: (randn(20, 712),), "x")


def test_compiles_small():
    puzzle.compiles(randn(1, 8), targets=["sm_90"])


def test_speedup():
    puzzle.race(randn(8192, 8192), at_least=0.9, baseline="solution")
