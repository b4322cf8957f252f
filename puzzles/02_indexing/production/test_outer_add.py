"""Tests of 02.1, outer addition, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, cases, far_apart, integers, offset, randn, strided, tensor
from course.values import special_values

puzzle = challenge("outer_add")


def two(M, N, dtype="float32"):
    return randn(M, dtype=dtype), randn(N, dtype=dtype)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_vector():
    x, y = two(4, 5)
    puzzle.check_or_raises(x[None], y, names="x")
    puzzle.check_or_raises(x[0], y, names="x")


def test_shapes_y_is_not_a_vector_like_x():
    x, y = two(4, 5)
    puzzle.check_or_raises(x, y[0], names="y")
    puzzle.check_or_raises(x, y[:, None], names="y")
    puzzle.check_or_raises(x, y.half(), names="y")
    puzzle.check_or_raises(x.half(), y, names="y")


# Any size and layout.


def test_masks_last_block_of_many_columns():
    puzzle.check(*two(20, 1300))


def test_masks_both_strides_differ():
    x, y = two(40, 70)
    puzzle.check(strided(x, 2), strided(y, 5))


def test_masks_unaligned():
    x, y = two(40, 70)
    puzzle.check(offset(x), offset(y, 3))


def test_masks_one_element_repeated():
    x, y = two(1, 70)
    puzzle.check(x.expand(50), y)
    puzzle.check(y, x.expand(50))


def test_masks_the_same_tensor_twice():
    x = randn(70)
    puzzle.check(x, x)


def test_masks_offsets_beyond_32_bits():
    x, y = integers(3, dtype="float16"), integers(5, dtype="float16")
    puzzle.check_offsets(far_apart(x), y)
    puzzle.check_offsets(y, far_apart(x))


def test_masks_result_beyond_32_bits():
    x = randn(1, dtype="float16")
    puzzle.check_large_offsets(x.expand(2**16), x.expand(2**15 + 1))


@cases(rows=(2**23 + 1, 1), columns=(1, 2**23 + 1))
def test_masks_more_tiles_than_axis_1_takes(M, N):
    puzzle.check_grid(*two(M, N, dtype="float16"))


def test_masks_limits():
    puzzle.limits(lambda M, N: two(M, N), dtypes=(*FLOATS, "int32"), M=2**17, N=2**19)


# Any value.


def test_numerics_int32():
    puzzle.check(
        integers(90, low=-300, high=300, dtype="int32"),
        integers(200, low=-300, high=300, dtype="int32"),
    )


def test_numerics_integers_that_float32_cannot_hold():
    puzzle.check(tensor([2**24 + 1, 2**30 + 1], "int32"), tensor([0, 2, -5], "int32"))


def test_numerics_special_values():
    inf, nan = float("inf"), float("nan")
    puzzle.check(tensor([inf, -inf, nan, 3e38, -0.0]), tensor([1.0, -inf, 3e38, -0.0]))


test_numerics_each_special_value = special_values(puzzle, lambda: two(20, 70, "float16"), "x y")


# Traffic, compilation and speed of what the first level leaves out.


@cases(wide=(64, 512), tall=(512, 64))
def test_traffic(M, N):
    puzzle.traffic(*two(M, N)).check(
        reads={"x": N // 16, "y": M // 16}, writes=1, launches=1, sectors={"result": 1.1}
    )


def test_traffic_with_gaps():
    x, y = two(64, 512)
    puzzle.traffic(strided(x, 3), strided(y, 2)).check(
        reads={"x": 32, "y": 4}, writes=1, launches=1
    )


def test_compiles_single_element():
    puzzle.compiles(*two(1, 1))


def test_speedup():
    puzzle.race(*two(16384, 16384), at_least=0.9, baseline="solution")
