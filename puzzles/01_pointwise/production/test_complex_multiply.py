"""Tests of 01.8, complex multiplication, in production."""

from course.challenge import challenge
from course.inputs import backwards, cases, far_apart, offset, randn, reserve, strided
from course.values import special_values

puzzle = challenge("complex_multiply")


def two(*shape):
    return randn(*shape, dtype="complex64"), randn(*shape, dtype="complex64")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_of_five_dimensions():
    puzzle.check_or_raises(*two(1, 2, 1, 2, 1), names="x")


def test_shapes_x_of_another_dtype():
    x, y = two(4, 5)
    puzzle.check_or_raises(x.real, y.real, names="x")
    puzzle.check_or_raises(x.cdouble(), y.cdouble(), names="x")


def test_shapes_y_is_not_like_x():
    x, y = two(4, 5)
    puzzle.check_or_raises(x, y.real, names="y")
    puzzle.check_or_raises(x, y[:1], names="y")
    puzzle.check_or_raises(x, y.T, names="y")


# Any size and layout.


@cases(
    matrix=((33, 41),),
    three_dimensions=((5, 6, 37),),
    four_dimensions=((3, 1, 5, 77),),
    scalar=((),),
    empty=((0,),),
)
def test_shapes(shape):
    puzzle.check(*two(*shape))


def test_masks_transposed():
    x, y = two(40, 31)
    puzzle.check(x.T, y.T.contiguous())
    puzzle.check(x.T.contiguous(), y.T)


def test_masks_all_strides_differ():
    x, y = two(3, 4, 5, 21)
    puzzle.check(strided(x, 2, 1, 3, 2), offset(y).permute(0, 2, 1, 3).transpose(1, 2))


def test_masks_expanded():
    x, y = two(20, 30)
    puzzle.check(x[:1].expand(20, 30), y)


@cases(matrix=((70_000, 2),), four_dimensions=((300, 300, 1, 2),))
def test_masks_more_rows_than_axis_1_takes(shape):
    puzzle.check_grid(*two(*shape))


def test_masks_offsets_beyond_32_bits():
    # Half as many complex numbers are as many floats.
    x, y = two(3)
    puzzle.check_offsets(far_apart(x, 2**30), y)
    puzzle.check_offsets(x, far_apart(y, 2**30))


def test_masks_result_beyond_32_bits():
    # Half as many complex numbers are as many floats.
    x = reserve(2**30 + 77, "complex64")
    puzzle.check_large_offsets(x, x)


def test_masks_limits():
    puzzle.limits(
        lambda A, B, C, D: backwards(*two(D, C, B, A)), A=2**20, B=2**12, C=2**12, D=2**12
    )


test_numerics_each_special_value = special_values(puzzle, lambda: two(70), "x y")


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_transposed():
    puzzle.traffic(*(x.T for x in two(40, 48))).check(reads={"x": 1, "y": 1}, writes=1, launches=1)


def test_compiles_strided():
    x, y = two(3, 4, 5, 21)
    puzzle.compiles(strided(x, 2, 1, 3, 2), y)


def test_speedup():
    puzzle.race(*two(2**25), at_least=0.9, baseline="solution")
