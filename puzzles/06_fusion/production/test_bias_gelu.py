"""Tests of 06.2, bias and GELU, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, far_apart, integers, offset, randn, strided
from course.values import special_values

puzzle = challenge("bias_gelu")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_of_the_spec():
    x, bias = randn(8, 5), randn(5)
    puzzle.check_or_raises(x[0], bias, names="x")
    puzzle.check_or_raises(randn(2, 4, 5), bias, names="x")
    puzzle.check_or_raises(integers(8, 5, dtype="int32"), bias, names="x")
    puzzle.check_or_raises(x.double(), bias.double(), names="x")


def test_shapes_bias_is_not_like_a_row_of_x():
    x, bias = randn(8, 5), randn(5)
    puzzle.check_or_raises(x, randn(8), names="bias")
    puzzle.check_or_raises(x, bias[:1], names="bias")
    puzzle.check_or_raises(x, bias[None], names="bias")
    puzzle.check_or_raises(x, bias.half(), names="bias")


# Any size and layout.


def test_masks_transposed():
    puzzle.check(randn(70, 40).T, randn(70))


def test_masks_all_strides_differ():
    puzzle.check(strided(randn(37, 50), 2, 3), strided(randn(50), 5))


def test_masks_unaligned():
    puzzle.check(offset(randn(20, 64)), offset(randn(64), 3))


def test_masks_one_row_repeated():
    puzzle.check(randn(1, 70).expand(40, 70), randn(1).expand(70))


def test_masks_more_tiles_than_axis_1_takes():
    puzzle.check_grid(randn(2**23, 1, dtype="float16"), randn(1, dtype="float16"))


def test_masks_offsets_beyond_32_bits():
    far, near = far_apart(integers(3, dtype="float16")), integers(3, dtype="float16")
    puzzle.check(far[:, None], near[:1])
    puzzle.check(far[None, :], near)
    puzzle.check(near[None, :], far)


def test_masks_result_beyond_32_bits():
    x, bias = randn(1, 1025, dtype="float16"), randn(1025, dtype="float16")
    puzzle.check_large_offsets(x.expand(2**21 + 1, 1025), bias)


def test_masks_limits():
    puzzle.limits(lambda M, N: (randn(M, N), randn(N)), dtypes=FLOATS, M=2**17, N=2**18)


# Any value.


def test_numerics_special_values():
    x, bias = randn(5, 70), randn(70)
    x[1, 0], x[2, 69], bias[7] = float("inf"), float("nan"), float("nan")
    puzzle.check(x, bias)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(5, 70, dtype="float16"), randn(70, dtype="float16")), "x bias"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_float16():
    puzzle.traffic(randn(64, 256, dtype="float16"), randn(256, dtype="float16")).check(
        reads={"x": 1}, writes=1, launches=1, sectors={"x": 1.1, "result": 1.1}
    )


def test_traffic_transposed():
    puzzle.traffic(randn(40, 48).T, randn(40)).check(reads={"x": 1}, writes=1, launches=1)


def test_compiles_transposed():
    puzzle.compiles(randn(70, 40).T, randn(70))


def test_speedup():
    x, bias = randn(8192, 8192, dtype="bfloat16"), randn(8192, dtype="bfloat16")
    puzzle.race(x, bias, at_least=0.9, baseline="solution")
