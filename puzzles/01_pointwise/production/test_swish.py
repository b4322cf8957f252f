"""Tests of 01.6, swish, in production."""

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
    uniform,
)
from course.values import special_values

puzzle = challenge("swish")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_of_five_dimensions():
    puzzle.check_or_raises(randn(1, 2, 1, 2, 1), names="x")


def test_shapes_x_of_integers():
    puzzle.check_or_raises(integers(4, dtype="int32"), names="x")


# Any size and layout.


@cases(
    matrix=((33, 41),),
    three_dimensions=((5, 6, 37),),
    four_dimensions=((3, 1, 5, 77),),
    scalar=((),),
    empty=((0,),),
)
def test_shapes(shape):
    puzzle.check(randn(*shape))


@cases(transposed=(1, 0, 2, 3), reversed=(3, 2, 1, 0), rotated=(1, 2, 3, 0))
def test_masks_permuted(a, b, c, d):
    puzzle.check(randn(3, 4, 5, 21).permute(a, b, c, d))


def test_masks_gaps():
    puzzle.check(strided(randn(3, 4, 5, 6), 2, 1, 3, 2))


def test_masks_unaligned():
    puzzle.check(offset(randn(20, 30)))


def test_masks_expanded():
    puzzle.check(randn(1, 30).expand(20, 30))


@cases(matrix=((70_000, 2),), four_dimensions=((300, 300, 1, 2),))
def test_masks_more_rows_than_axis_1_takes(shape):
    puzzle.check_grid(randn(*shape))


def test_masks_offsets_beyond_32_bits():
    puzzle.check_offsets(far_apart(integers(3, dtype="float16")))


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(randn(1, dtype="float16").expand(2**31 + 77))


def test_masks_limits():
    puzzle.limits(
        lambda A, B, C, D: backwards(randn(D, C, B, A)),
        dtypes=FLOATS,
        A=2**21,
        B=2**12,
        C=2**12,
        D=2**12,
    )


# Any value.


def test_numerics_extremes():
    inf, nan = float("inf"), float("nan")
    puzzle.check(tensor([3e38, -3e38, 88.0, -88.0, -104.0, 0.0, 1.0, 2.0, inf, -inf, nan]))


def test_numerics_far_below_zero():
    puzzle.check(uniform(3000, low=-80, high=-10))


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(70, dtype="float16"),), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_transposed():
    puzzle.traffic(randn(40, 48).T).check(reads={"x": 1}, writes=1, launches=1)


def test_compiles_permuted():
    puzzle.compiles(randn(3, 4, 5, 21).permute(3, 2, 1, 0))


def test_speedup():
    puzzle.race(randn(2**26), at_least=0.9, baseline="solution")
