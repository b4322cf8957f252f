"""Tests of 01.5, fused multiply-add, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, backwards, cases, far_apart, integers, offset, randn, strided
from course.values import special_values

puzzle = challenge("fused_multiply_add")


def three(*shape, dtype="float32", make=randn):
    return make(*shape, dtype=dtype), make(*shape, dtype=dtype), make(*shape, dtype=dtype)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_of_five_dimensions():
    puzzle.check_or_raises(*three(1, 2, 1, 2, 1), names="x")


def test_shapes_y_is_not_like_x():
    x, y, z = three(4, 5)
    puzzle.check_or_raises(x, y.T, z, names="y")
    puzzle.check_or_raises(x, y.half(), z, names="y")
    puzzle.check_or_raises(x.half(), y, z.half(), names="y")


def test_shapes_z_is_not_like_x():
    x, y, z = three(4, 5)
    puzzle.check_or_raises(x, y, z[:1], names="z")
    puzzle.check_or_raises(x, y, z.half(), names="z")


# Any size and layout.


@cases(
    matrix=((33, 41),),
    three_dimensions=((5, 6, 37),),
    four_dimensions=((3, 1, 5, 77),),
    scalar=((),),
    empty_dimension=((4, 0, 3),),
)
def test_shapes(shape):
    puzzle.check(*three(*shape))


def test_masks_transposed():
    x, y, z = three(40, 31, make=integers)
    puzzle.check(x.T, y.T.contiguous(), z.T)


def test_masks_all_strides_differ():
    x, y, z = three(3, 4, 5, 21, make=integers)
    puzzle.check(x.permute(1, 0, 2, 3).transpose(0, 1), strided(y, 2, 1, 3, 2), offset(z))


def test_masks_permuted():
    x, y, z = three(3, 4, 5, 21, make=integers)
    puzzle.check(x.permute(3, 1, 0, 2), y.permute(3, 1, 0, 2), z.permute(3, 1, 0, 2).contiguous())


def test_masks_expanded():
    x, y, z = integers(1, 30), integers(20, 1), integers(20, 30)
    puzzle.check(x.expand(20, 30), y.expand(20, 30), z)


@cases(matrix=((70_000, 2),), four_dimensions=((300, 300, 1, 2),))
def test_masks_more_rows_than_axis_1_takes(shape):
    puzzle.check_grid(*three(*shape))


def test_masks_offsets_beyond_32_bits():
    x, y, z = three(3, dtype="float16", make=integers)
    puzzle.check_offsets(far_apart(x), y, z)
    puzzle.check_offsets(x, far_apart(y), z)
    puzzle.check_offsets(x, y, far_apart(z))


def test_masks_result_beyond_32_bits():
    x = randn(1, dtype="float16").expand(2**31 + 77)
    puzzle.check_large_offsets(x, x, x)


def test_masks_limits():
    puzzle.limits(
        lambda A, B, C, D: backwards(*three(D, C, B, A)),
        dtypes=FLOATS,
        A=2**20,
        B=2**12,
        C=2**12,
        D=2**12,
    )


test_numerics_each_special_value = special_values(
    puzzle, lambda: three(70, dtype="float16"), "x y z"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_transposed():
    puzzle.traffic(*(x.T for x in three(40, 48))).check(
        reads={"x": 1, "y": 1, "z": 1}, writes=1, launches=1
    )


def test_compiles_strided():
    x, y, z = three(3, 4, 5, 21)
    puzzle.compiles(x.permute(1, 0, 2, 3).transpose(0, 1), strided(y, 2, 1, 3, 2), z)


def test_speedup():
    puzzle.race(*three(2**26), at_least=0.9, baseline="solution")
