"""Tests of 11.4, int4 matmul, in production."""

import torch

from course.challenge import challenge
from course.inputs import HALVES, cases, dtypes, far_apart, integers, randn, strided, uniform
from course.values import special_values

puzzle = challenge("int4_matmul")


def layer(M, N, K, group, dtype="float16"):
    """Random factors: every group of every row has a scale and a zero point of its own."""
    weight = integers(N, K // 2, low=0, high=256, dtype="uint8")
    scale = uniform(N, K // group, low=0.01, high=0.1, dtype=dtype)
    zero = integers(N, K // group, low=0, high=16, dtype="uint8")
    return randn(M, K, dtype=dtype), weight, scale, zero


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix_of_half_precision():
    x, *rest = layer(8, 6, 64, 32)
    puzzle.check_or_raises(x[0], *rest, names="x")
    puzzle.check_or_raises(x[None], *rest, names="x")
    puzzle.check_or_raises(x.double(), *rest, names="x", answer=False)
    puzzle.check_or_raises(x.to(torch.int32), *rest, names="x", answer=False)


def test_shapes_k_is_not_made_of_groups():
    x, weight, scale, zero = layer(8, 6, 64, 32)
    puzzle.check_or_raises(x[:, :40], weight[:, :20], scale, zero, names="x")


def test_shapes_weight_does_not_fit_x():
    x, weight, scale, zero = layer(8, 6, 64, 32)
    puzzle.check_or_raises(x, weight[0], scale, zero, names="weight")
    puzzle.check_or_raises(x, weight[None], scale, zero, names="weight", answer=False)
    puzzle.check_or_raises(x, weight[:, :31], scale, zero, names="weight")
    puzzle.check_or_raises(x, weight.repeat(1, 2), scale, zero, names="weight")
    puzzle.check_or_raises(x, weight.view(torch.int8), scale, zero, names="weight", answer=False)


def test_shapes_scale_does_not_fit_weight():
    x, weight, scale, zero = layer(8, 6, 64, 32)
    puzzle.check_or_raises(x, weight, scale[0], zero, names="scale", answer=False)
    puzzle.check_or_raises(x, weight, scale[:5], zero, names="scale")
    puzzle.check_or_raises(x, weight, scale.repeat(1, 2), zero, names="scale", answer=False)
    puzzle.check_or_raises(x, weight, scale.float(), zero, names="scale", answer=False)
    puzzle.check_or_raises(x, weight, scale.bfloat16(), zero, names="scale")


def test_shapes_zero_does_not_fit_scale():
    x, weight, scale, zero = layer(8, 6, 64, 32)
    puzzle.check_or_raises(x, weight, scale, zero[0], names="zero", answer=False)
    puzzle.check_or_raises(x, weight, scale, zero[:, :1], names="zero", answer=False)
    puzzle.check_or_raises(x, weight, scale, zero.half(), names="zero", answer=False)


# Any size and layout.


def test_masks_masked_lanes():
    # Masked lanes of a load without `other` spoil the result here.
    puzzle.check(*layer(17, 19, 96, 32))


def test_masks_all_transposed():
    x, weight, scale, zero = (value.T.contiguous().T for value in layer(37, 41, 256, 64))
    puzzle.check(x, weight, scale, zero)


def test_masks_all_strides_differ():
    x, weight, scale, zero = layer(37, 41, 256, 64)
    puzzle.check(strided(x, 2, 3), strided(weight, 5, 2), strided(scale, 1, 4), strided(zero, 3, 1))


def test_masks_expanded():
    x, weight, scale, zero = layer(1, 1, 256, 64)
    puzzle.check(x.expand(37, 256), weight.expand(41, 128), scale.expand(41, 4), zero.expand(41, 4))


def test_masks_offsets_beyond_32_bits():
    x, weight, scale, zero = layer(5, 5, 32, 32)
    far_x = far_apart(x[:3, 0])[:, None].expand(3, 32)
    far_weight = far_apart(weight[:, 0], 2**32)[:, None].expand(5, 16)
    puzzle.check(far_x, weight, scale, zero)
    puzzle.check(x, far_weight, scale, zero)
    puzzle.check(x, weight[:3], far_apart(scale[:3, 0])[:, None], zero[:3])
    puzzle.check(x, weight, scale, far_apart(zero[:, 0], 2**32)[:, None])


def test_masks_groups_beyond_32_bits():
    x, weight, scale, zero = layer(2, 1, 160, 32)
    puzzle.check(x, weight, far_apart(scale[0])[None], zero)
    puzzle.check(x, weight, scale, far_apart(zero[0], 2**32)[None])


@cases(steps_of_32=64, steps_of_64=128, steps_of_128=256)
def test_masks_steps_beyond_32_bits(K):
    # Only the stride times the length of a step overflows.
    x, weight, scale, zero = layer(1, 1, K, K // 2)
    puzzle.check_offsets(far_apart(x[0], 2**32)[None], weight, scale, zero)
    puzzle.check_offsets(x, far_apart(weight[0], 2**33)[None], scale, zero)


def test_masks_result_beyond_32_bits():
    x, weight, scale, zero = layer(1, 1, 32, 32)
    M, N = 2**16, 2**15 + 1
    puzzle.check_large_offsets(
        x.expand(M, 32), weight.expand(N, 16), scale.expand(N, 1), zero.expand(N, 1)
    )


@cases(columns=(1, 2**23 + 1), rows=(2**23 + 1, 1))
def test_masks_more_tiles_than_axis_1_takes(M, N):
    x, weight, scale, zero = layer(1, 1, 32, 32)
    puzzle.check_grid(x.expand(M, 32), weight.expand(N, 16), scale.expand(N, 1), zero.expand(N, 1))


def test_masks_limits():
    puzzle.limits(
        lambda M, N, K: layer(M, N, K, 32),
        dtypes=HALVES,
        M=2**17,
        N=2**17,
        K=range(32, 2**17 + 1, 32),
    )


# Any value.


@dtypes("float16", "bfloat16")
def test_numerics_special_values(dtype):
    x, weight, scale, zero = layer(20, 30, 128, 64, dtype)
    x[3, 5], x[4, 127], x[5, 64] = float("nan"), float("inf"), -float("inf")
    puzzle.check(x, weight, scale, zero)


def test_numerics_scales_of_zero_and_of_either_sign():
    x, weight, scale, zero = layer(20, 30, 128, 64)
    scale[1], scale[2, 1] = 0.0, -0.5
    puzzle.check(x, weight, scale, zero)


def test_numerics_beyond_the_range_of_float16():
    x, weight, scale, zero = layer(20, 30, 128, 64, "bfloat16")
    puzzle.check(x * 1e5, weight, scale, zero)
    puzzle.check(x, weight, scale * 1e6, zero)


# Of the largest scale: the spec lets (q - zero) * scale be rounded to float16, which overflows, or
# the sum of a group be scaled in float32, which holds it.
# Of infinite scales: a sum of a group that is scaled once is infinite, and terms that are scaled
# one by one are NaN where q is zero.
test_numerics_each_special_value = special_values(
    puzzle,
    lambda: layer(20, 30, 128, 64),
    "x scale",
    apart={"scale": ("inf", "minus_inf", "largest")},
)


# Traffic, compilation and speed of what the first level leaves out.


@cases(group_32=32, group_128=128, group_256=256)
def test_traffic_scales(group):
    puzzle.traffic(*layer(16, 128, 512, group)).check(
        reads={"weight": 1, "x": 4, "scale": 4, "zero": 4},
        writes=1,
        launches=1,
        sectors={"weight": 1.1 if group > 32 else 2.1},
        scratch=0,
    )


@cases(ragged=(35, 33, 64, 32), many_rows=(256, 256, 256, 128), long_groups=(16, 64, 512, 256))
def test_compiles(M, N, K, group):
    puzzle.compiles(*layer(M, N, K, group))


def test_compiles_transposed():
    x, weight, scale, zero = (value.T.contiguous().T for value in layer(64, 64, 256, 64))
    puzzle.compiles(x, weight, scale, zero)


@cases(few_rows=16, many_rows=1024)
def test_speedup(M):
    puzzle.race(*layer(M, 16384, 16384, 128), at_least=0.9, baseline="solution")
