"""Tests of 06.3, dropout, in production."""

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    backwards,
    cases,
    far_apart,
    integers,
    offset,
    randn,
    strided,
    tensor,
)
from course.values import special_values

puzzle = challenge("dropout")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_of_the_spec():
    x = randn(4, 5)
    puzzle.check_or_raises(randn(1, 2, 1, 2, 1), 0.5, 1, names="x")
    puzzle.check_or_raises(integers(4, dtype="int32"), 0.5, 1, names="x", answer=False)
    puzzle.check_or_raises(x.double(), 0.3, 1, names="x")


@cases(negative=-0.1, above_one=1.1, nan=float("nan"))
def test_shapes_p_is_not_a_probability(p):
    puzzle.check_or_raises(randn(4, 5), p, 1, names="p", answer=False)


# Any size and layout.


@cases(
    scalar=((),),
    matrix=((33, 41),),
    three_dimensions=((5, 6, 37),),
    four_dimensions=((3, 1, 5, 77),),
    empty=((0,),),
)
def test_shapes(shape):
    puzzle.check(randn(*shape), 0.4, 5)


def test_masks_transposed():
    # The mask depends on the number of an element, not on its place in memory.
    puzzle.check(integers(41, 33, low=1).T, 0.5, 3)


def test_masks_all_strides_differ():
    puzzle.check(strided(randn(3, 4, 5, 21), 2, 1, 3, 2), 0.3, 9)


def test_masks_permuted():
    puzzle.check(offset(randn(3, 4, 5, 21)).permute(3, 1, 0, 2), 0.3, 9)


def test_masks_expanded():
    # One element in memory, many numbers: some are dropped and some are not.
    puzzle.check(integers(1, low=1).expand(300), 0.5, 9)


def test_masks_offsets_beyond_32_bits():
    puzzle.check(far_apart(integers(3, low=1, dtype="float16")), 0.1, 9)


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(randn(1, dtype="float16").expand(2**31 + 77), 0.5, 1)


@cases(matrix=((70_000, 2),), four_dimensions=((300, 300, 1, 2),))
def test_masks_more_rows_than_axis_1_takes(shape):
    puzzle.check_grid(randn(*shape), 0.5, 1)


def test_masks_limits():
    puzzle.limits(
        lambda A, B, C, D: (*backwards(randn(D, C, B, A)), 0.5, 3),
        dtypes=FLOATS,
        A=2**21,
        B=2**12,
        C=2**12,
        D=2**12,
    )


# Any value.


@cases(everything=1.0, whole_number_1=1, whole_number_0=0)
def test_numerics_probability(p):
    puzzle.check(randn(500), p, 2)


@cases(zero=0, one_that_16_divides=16, negative=-1)
def test_numerics_seed(seed):
    puzzle.check(integers(500, low=1), 0.5, seed)


def test_numerics_number_that_equals_p():
    # tl.rand(7, 5) to the last bit: not greater than p, so number 5 is dropped.
    number = 0.6772258281707764
    puzzle.check(integers(8, low=1), number, 7)
    puzzle.check(integers(8, low=1), number - 2**-24, 7)


@cases(half=0.5, everything=1.0)
def test_numerics_what_is_dropped_is_zero(p):
    inf, nan = float("inf"), float("nan")
    puzzle.check(tensor([inf, nan, -inf, 1.0] * 20), p, 1)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(500, dtype="float16"), 0.25, 2), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_transposed():
    puzzle.traffic(randn(40, 48).T, 0.5, 1).check(reads={"x": 1}, writes=1, launches=1)


def test_compiles_permuted():
    puzzle.compiles(randn(3, 4, 5, 21).permute(3, 2, 1, 0), 0.5, 2**40)


def test_speedup():
    puzzle.race(randn(2**26), 0.5, 123, at_least=0.9, baseline="solution")
