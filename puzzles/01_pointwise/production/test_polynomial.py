"""Tests of 01.7, polynomial, in production."""

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

puzzle = challenge("polynomial")

FOUR = (0.5, -1.25, 2.0, 0.75)
EIGHT = (*FOUR, -0.5, 1.5, -2.25, 1.0)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_of_five_dimensions():
    puzzle.check_or_raises(randn(1, 2, 1, 2, 1), (1.0,), names="x")


def test_shapes_x_of_integers():
    puzzle.check_or_raises(integers(4, dtype="int32"), (1.0, 0.5), names="x")


def test_shapes_no_coefficients():
    puzzle.check_or_raises(randn(4), (), names="coefficients")


def test_shapes_nine_coefficients():
    puzzle.check_or_raises(randn(4), (*EIGHT, 1.0), names="coefficients")


# Any size and layout.


@cases(
    matrix=((33, 41),),
    four_dimensions=((3, 1, 5, 77),),
    scalar=((),),
    empty=((0, 3),),
)
def test_shapes(shape):
    puzzle.check(randn(*shape), (1.0, 2.0, 3.0))


@cases(transposed=(1, 0, 2, 3), reversed=(3, 2, 1, 0), rotated=(1, 2, 3, 0))
def test_masks_permuted(a, b, c, d):
    puzzle.check(randn(3, 4, 5, 21).permute(a, b, c, d), FOUR)


def test_masks_gaps():
    puzzle.check(strided(randn(3, 4, 5, 6), 2, 1, 3, 2), FOUR)


def test_masks_unaligned():
    puzzle.check(offset(randn(20, 30)), FOUR)


@cases(matrix=((70_000, 2),), four_dimensions=((300, 300, 1, 2),))
def test_masks_more_rows_than_axis_1_takes(shape):
    puzzle.check_grid(randn(*shape), FOUR)


def test_masks_offsets_beyond_32_bits():
    puzzle.check_offsets(far_apart(integers(3, dtype="float16")), FOUR)


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(randn(1, dtype="float16").expand(2**31 + 77), FOUR)


def test_masks_limits():
    puzzle.limits(
        lambda A, B, C, D, degree: (*backwards(randn(D, C, B, A)), (0.5,) * (degree + 1)),
        dtypes=FLOATS,
        A=2**21,
        B=2**12,
        C=2**12,
        D=2**12,
        degree=range(8),
    )


# Any value.


def test_numerics_seven_coefficients():
    puzzle.check(randn(100), EIGHT[:7])


def test_numerics_special_values():
    puzzle.check(tensor([float("inf"), float("nan"), 1e20]), (1.0, 1.0, 1.0))


# Of -inf: Horner's rule adds 1 to -inf, and then multiplies by -inf; as a sum of powers the same
# polynomial is inf - inf.
test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(70, dtype="float16"), (1.0, 1.0, 1.0)), "x", apart={"x": ("minus_inf",)}
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_transposed():
    puzzle.traffic(randn(40, 48).T, EIGHT).check(reads={"x": 1}, writes=1, launches=1)


def test_compiles_one_coefficient():
    puzzle.compiles(randn(3, 4, 5, 21).permute(3, 2, 1, 0), (2,))


def test_speedup():
    puzzle.race(randn(2**26), EIGHT, at_least=0.9, baseline="solution")
