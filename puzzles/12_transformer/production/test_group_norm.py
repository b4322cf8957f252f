"""Tests of 12.3, group norm, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, along, cases, far_apart, integers, offset, randn, strided, tensor
from course.values import special_values

puzzle = challenge("group_norm", results=("y", "mean", "rstd"))


def layer(B, C, L, groups, dtype="float32"):
    x = randn(B, C, L, dtype=dtype)
    return x, groups, randn(C, dtype=dtype), randn(C, dtype=dtype)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_of_the_spec():
    x, groups, weight, bias = layer(2, 6, 20, 3)
    puzzle.check_or_raises(x[0], groups, weight, bias, names="x", answer=False)
    puzzle.check_or_raises(x[None], groups, weight, bias, names="x", answer=False)
    whole = integers(2, 6, 20, dtype="int32")
    puzzle.check_or_raises(whole, groups, weight.int(), bias.int(), names="x", answer=False)


@cases(none=0, negative=-1, no_divisor=4, more_than_channels=12)
def test_shapes_groups_do_not_fit(groups):
    x, _, weight, bias = layer(2, 6, 20, 3)
    puzzle.check_or_raises(x, groups, weight, bias, names="groups", answer=False)


def test_shapes_weight_or_bias_does_not_fit():
    x, groups, weight, bias = layer(2, 6, 20, 3)
    puzzle.check_or_raises(x, groups, weight[1:], bias, names="weight")
    puzzle.check_or_raises(x, groups, weight[:1], bias, names="weight", answer=False)
    puzzle.check_or_raises(x, groups, weight.half(), bias, names="weight")
    puzzle.check_or_raises(x, groups, weight, bias[1:], names="bias")
    puzzle.check_or_raises(x, groups, weight, bias[:1], names="bias", answer=False)
    puzzle.check_or_raises(x, groups, weight, bias.half(), names="bias")


# Any size and layout.


@cases(images=(2, 6, 35, 3), wide_groups=(1, 200, 3, 1), many_parts=(1, 3, 14_000, 1))
def test_masks_channels_last(B, C, L, groups):
    x, groups, weight, bias = layer(B, C, L, groups)
    puzzle.check(x.mT.contiguous().mT, groups, weight, bias)


def test_masks_every_stride():
    x, groups, weight, bias = layer(3, 6, 35, 2)
    puzzle.check(strided(x, 2, 1, 3), groups, strided(weight, 2), strided(bias, 3))


def test_masks_expanded_and_unaligned():
    x, groups, weight, bias = layer(3, 6, 36, 2)
    puzzle.check(x[:1].expand(3, 6, 36), groups, weight[:1].expand(6), offset(bias))
    puzzle.check(offset(x), groups, offset(weight), bias[:1].expand(6))


def test_masks_many_channels_of_one_element():
    puzzle.check(*layer(2, 9000, 1, 1))


@cases(batch=0, channels=1, positions=2)
def test_masks_offsets_beyond_32_bits(dim):
    shape = [2, 2, 2]
    shape[dim] = 3
    x = along(far_apart(tensor([1, 5, 3], "float16")), dim, *shape)
    weight, bias = integers(shape[1], dtype="float16"), integers(shape[1], dtype="float16")
    puzzle.check(x, 1, weight, bias)


def test_masks_weights_beyond_32_bits():
    far, near = far_apart(integers(3, dtype="float16")), integers(3, dtype="float16")
    x = randn(2, 3, 8, dtype="float16")
    puzzle.check(x, 1, far, near)
    puzzle.check(x, 3, near, far)


def test_masks_result_beyond_32_bits():
    x = randn(1, 1, 1, dtype="float16").expand(2**12, 2**12, 2**7 + 1)
    puzzle.check_large_offsets(x, 1, x[0, :, 0], x[0, :, 0])


def test_masks_more_groups_than_axis_1_takes():
    x = randn(1, 1, 2, dtype="float16").expand(70_000, 2, 2)
    puzzle.check_grid(x, 2, x[0, :, 0], x[0, :, 0])


def test_masks_limits():
    puzzle.limits(
        lambda B, groups, width, L: layer(B, groups * width, L, groups),
        dtypes=FLOATS,
        B=2**17,
        groups=2**14,
        width=2**14,
        L=2**18,
    )


# Any value.


def test_numerics_mean_far_from_zero():
    x, groups, weight, bias = layer(2, 6, 3000, 2)
    puzzle.check(1e4 + x, groups, weight, bias)


def test_numerics_outlier_in_the_first_place():
    x, groups, weight, bias = layer(1, 4, 3000, 2)
    x[0, 0, 0] = 1e6
    puzzle.check(x, groups, weight, bias)


def test_numerics_constant_groups():
    x = tensor([[[3.0]], [[0.0]], [[100.0]]]).repeat(1, 4, 500)
    puzzle.check(x, 2, randn(4), randn(4))


def test_numerics_squares_beyond_float16():
    x, groups, weight, bias = layer(2, 6, 100, 2, "float16")
    puzzle.check(x * 500, groups, weight, bias)


def test_numerics_nan_stays_in_its_group():
    x, groups, weight, bias = layer(2, 6, 100, 3)
    x[1, 2, 7] = float("nan")
    puzzle.check(x, groups, weight, bias)


# Of inf: the mean is inf as a sum, and inf - inf where means of parts are merged.
test_numerics_each_special_value = special_values(
    puzzle,
    lambda: layer(2, 6, 100, 3, "float16"),
    "x weight bias",
    apart={"x": ("inf", "minus_inf")},
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_channels_last():
    x, groups, weight, bias = layer(2, 128, 64, 2, "float16")
    puzzle.traffic(x.mT.contiguous().mT, groups, weight, bias).check(
        reads={"x": 2}, writes={"y": 1}, sectors={"x": 1.1}
    )


@cases(channels_last=("bfloat16", 2, 64, 300), parts=("float16", 1, 2, 20_000))
def test_compiles_paths(dtype, B, C, L):
    x, groups, weight, bias = layer(B, C, L, 2, dtype)
    puzzle.compiles(x.mT.contiguous().mT if C > 2 else x, groups, weight, bias)


def test_speedup():
    puzzle.race(*layer(16, 512, 4096, 32, "bfloat16"), at_least=0.9, baseline="solution")
