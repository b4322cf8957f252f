"""Tests of 11.3, int8 matmul, in production."""

import torch

from course.challenge import challenge
from course.inputs import (
    FLOATS,
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

puzzle = challenge("int8_matmul")
nan = float("nan")


def whole(*shape):
    return integers(*shape, low=-128, high=128, dtype="int8")


def layer(M, N, K):
    return whole(M, K), whole(N, K), uniform(M, low=1e-3, high=1e-2), uniform(N, low=1e-3, high=1)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix_of_int8():
    x, *rest = layer(8, 6, 5)
    puzzle.check_or_raises(x[0], *rest, names="x")
    puzzle.check_or_raises(x[None], *rest, names="x", answer=False)
    puzzle.check_or_raises(x.float(), *rest, names="x")
    puzzle.check_or_raises(x.view(torch.uint8), *rest, names="x")


def test_shapes_sums_beyond_int32():
    # The products of -128 add up to 2**31.
    x = tensor([[-128]], "int8").expand(1, 2**17)
    puzzle.check_or_raises(x, x, tensor([1.0]), tensor([1.0]), torch.float32, names="x")


def test_shapes_weight_does_not_fit_x():
    x, weight, *scales = layer(8, 6, 5)
    puzzle.check_or_raises(x, weight[0], *scales, names="weight")
    puzzle.check_or_raises(x, weight[..., None], *scales, names="weight")
    puzzle.check_or_raises(x, weight.T, *scales, names="weight")
    puzzle.check_or_raises(x, weight[:, :4], *scales, names="weight")
    puzzle.check_or_raises(x, weight.half(), *scales, names="weight")


def test_shapes_scale_of_another_form():
    x, weight, x_scale, weight_scale = layer(8, 6, 5)
    for wrong in (x_scale[:7], x_scale[:, None], x_scale.half(), x_scale.double()):
        puzzle.check_or_raises(x, weight, wrong, weight_scale, names="x_scale", answer=False)
    for wrong in (weight_scale[:5], weight_scale[:, None], weight_scale.half()):
        puzzle.check_or_raises(x, weight, x_scale, wrong, names="weight_scale", answer=False)


@cases(float64=torch.float64, int32=torch.int32)
def test_shapes_another_out_dtype(dtype):
    puzzle.check_or_raises(*layer(8, 6, 5), dtype, names="out_dtype", answer=False)


# Any size and layout.


@cases(few_rows=(3, 300, 200), few_columns=(300, 3, 200))
def test_masks(M, N, K):
    puzzle.check(*layer(M, N, K))


def test_masks_masked_lanes():
    # Masked lanes of a load without `other` spoil the result here.
    puzzle.check(*layer(17, 19, 37), torch.float32)


def test_masks_both_transposed():
    x, weight, *scales = layer(40, 24, 56)
    puzzle.check(x.T.contiguous().T, weight.T.contiguous().T, *scales)


def test_masks_all_strides_differ():
    x, weight, x_scale, weight_scale = layer(37, 41, 50)
    puzzle.check(
        strided(x, 2, 3), strided(weight, 5, 2), strided(x_scale, 3), strided(weight_scale, 2)
    )


def test_masks_expanded():
    x, weight, x_scale, weight_scale = layer(1, 41, 50)
    puzzle.check(x.expand(37, 50), offset(weight), x_scale.expand(37), weight_scale)


def test_masks_large():
    # Where a kernel may copy its factors first: no row but the first is aligned.
    puzzle.check(*layer(259, 517, 515))


def test_masks_offsets_beyond_32_bits():
    far, near = far_apart(whole(5), 2**32), whole(5)
    far_scale, scale = far_apart(randn(3)), randn(5)
    puzzle.check(far[:, None], near[:, None], scale, scale)
    puzzle.check(near[:, None], far[:, None], scale, scale)
    puzzle.check(far[None, :], near[None, :], scale[:1], scale[:1])
    puzzle.check(near[None, :], far[None, :], scale[:1], scale[:1])
    puzzle.check(near[:3, None], near[:, None], far_scale, scale)
    puzzle.check(near[:, None], near[:3, None], scale, far_scale)


@cases(steps_of_32=33, steps_of_64=65, steps_of_128=129)
def test_masks_steps_beyond_32_bits(K):
    # Only the stride times the length of a step overflows.
    far, near, scale = far_apart(whole(K), 2**32), whole(K), randn(1)
    puzzle.check_offsets(far[None, :], near[None, :], scale, scale)
    puzzle.check_offsets(near[None, :], far[None, :], scale, scale)


def test_masks_result_beyond_32_bits():
    x, scale, M, N = whole(1, 32), randn(1), 2**16, 2**15 + 1
    puzzle.check_large_offsets(x.expand(M, 32), x.expand(N, 32), scale.expand(M), scale.expand(N))


@cases(columns=(1, 2**24 + 1), rows=(2**23 + 1, 1))
def test_masks_more_tiles_than_axis_1_takes(M, N):
    x, scale = whole(1, 1), randn(1)
    puzzle.check_grid(x.expand(M, 1), x.expand(N, 1), scale.expand(M), scale.expand(N))


def test_masks_limits():
    puzzle.limits(
        lambda M, N, K: (*layer(M, N, K), torch.float32),
        dtypes={"out_dtype": FLOATS},
        M=2**17,
        N=2**17,
        K=2**17 - 1,
    )


# Any value.


def test_numerics_longest_sums():
    # The largest sum that the spec allows is next to 2**31, and takes a thousand steps and more.
    x, scale = tensor([[-128]], "int8").expand(1, 2**17 - 1), tensor([1.0])
    puzzle.check_exactly(x, x, scale, scale * 2.0**-16, torch.float16)


def test_numerics_nan_stays_in_its_row_or_column():
    x, weight, x_scale, weight_scale = layer(40, 50, 60)
    x_scale[3], weight_scale[49] = nan, nan
    puzzle.check(x, weight, x_scale, weight_scale)


def test_numerics_scales_of_zero_and_of_either_sign():
    x, weight, x_scale, weight_scale = layer(20, 30, 40)
    x_scale[1], x_scale[2], weight_scale[3] = 0.0, -0.5, -2.0
    puzzle.check(x, weight, x_scale, weight_scale, torch.float32)


test_numerics_each_special_value = special_values(
    puzzle, lambda: layer(40, 50, 60), "x_scale weight_scale"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_few_rows():
    puzzle.traffic(*layer(16, 128, 256)).check(
        reads={"x": 4, "weight": 1}, writes=1, launches=1, scratch=0
    )


@cases(ragged=(35, 67, 33), few_rows=(3, 256, 128), large=(1024, 1024, 128))
def test_compiles(M, N, K):
    puzzle.compiles(*layer(M, N, K))


def test_compiles_transposed():
    x, weight, *scales = layer(128, 128, 128)
    puzzle.compiles(x.T, weight.T, *scales)


def test_compiles_large():
    puzzle.compiles(*layer(517, 519, 259))


def test_speedup():
    inputs, work = layer(8192, 8192, 8192), (2 * 8192**3, "int8")
    puzzle.race(*inputs, at_least=0.9, operations=work, baseline="solution")
