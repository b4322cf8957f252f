"""Tests of 06.5, arc sine, in production."""

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

puzzle = challenge("asin")


def within(*shape, dtype="float32"):
    return uniform(*shape, low=-1, high=1, dtype=dtype)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_of_the_spec():
    puzzle.check_or_raises(within(1, 2, 1, 2, 1), names="x")
    puzzle.check_or_raises(integers(4, dtype="int32"), names="x")
    puzzle.check_or_raises(within(4, dtype="float64"), names="x")


# Any size and layout.


@cases(
    scalar=((),),
    matrix=((33, 41),),
    three_dimensions=((5, 6, 37),),
    four_dimensions=((3, 1, 5, 77),),
    empty=((0,),),
)
def test_shapes(shape):
    puzzle.check(within(*shape))


@cases(transposed=(1, 0, 2, 3), reversed=(3, 2, 1, 0), rotated=(1, 2, 3, 0))
def test_masks_permuted(a, b, c, d):
    puzzle.check(within(3, 4, 5, 21).permute(a, b, c, d))


def test_masks_gaps():
    puzzle.check(strided(within(3, 4, 5, 6), 2, 1, 3, 2))


def test_masks_unaligned():
    puzzle.check(offset(within(20, 30)))


def test_masks_expanded():
    puzzle.check(within(1, 30).expand(20, 30))


def test_masks_offsets_beyond_32_bits():
    puzzle.check(far_apart(within(3, dtype="float16")))


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(randn(1, dtype="float16").expand(2**31 + 77))


@cases(matrix=((70_000, 2),), four_dimensions=((300, 300, 1, 2),))
def test_masks_more_rows_than_axis_1_takes(shape):
    puzzle.check_grid(within(*shape))


def test_masks_limits():
    puzzle.limits(
        lambda A, B, C, D: backwards(within(D, C, B, A)),
        dtypes=FLOATS,
        A=2**21,
        B=2**12,
        C=2**12,
        D=2**12,
    )


# Any value.


def test_numerics_special_values():
    inf, nan = float("inf"), float("nan")
    puzzle.check(tensor([1.0, -1.0, 0.0, -0.0, 1.0000001, -1.0000001, inf, -inf, nan, 1e-40]))


test_numerics_each_special_value = special_values(
    puzzle, lambda: (within(70, dtype="float16"),), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_transposed():
    puzzle.traffic(within(40, 48).T).check(reads={"x": 1}, writes=1, launches=1)


def test_compiles_permuted():
    puzzle.compiles(within(3, 4, 5, 21).permute(3, 2, 1, 0))


def test_speedup():
    puzzle.race(within(2**26), at_least=0.9, baseline="solution")
