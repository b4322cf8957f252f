"""Tests of 10.3, 2-D convolution, in production."""

import math

import torch

from course.challenge import challenge
from course.inputs import FLOATS, along, cases, dtypes, far_apart, integers, offset, randn, strided
from course.values import special_values

puzzle = challenge("conv2d", input_precision="tf32")
INF, NAN = float("inf"), float("nan")


def images(N, C, H, W, K, R, S, dtype="float32", make=integers, groups=1):
    return make(N, C, H, W, dtype=dtype), make(K, C // groups, R, S, dtype=dtype)


def channels_last(*tensors):
    """The same numbers, with neighbouring channels side by side in memory."""
    return [x.contiguous(memory_format=torch.channels_last) for x in tensors]


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_of_four_dimensions():
    x, weight = images(2, 3, 6, 7, 4, 3, 3)
    puzzle.check_or_raises(x[0], weight, names="x")
    puzzle.check_or_raises(x[None], weight, names="x")


@dtypes("float64", "int32")
def test_shapes_x_of_another_dtype(dtype):
    puzzle.check_or_raises(*images(2, 3, 6, 7, 4, 3, 3, dtype, randn), names="x")


def test_shapes_weight_does_not_fit_x():
    x, weight = images(2, 4, 6, 7, 4, 3, 3)
    for wrong in (weight[0], weight[None], weight[:, :3], weight[:, :1], weight.half()):
        puzzle.check_or_raises(x, wrong, names="weight")
    puzzle.check_or_raises(x, weight, groups=2, names="weight")
    puzzle.check_or_raises(x, weight[:3, :2], groups=2, names="weight")


@cases(tall=(7, 3), wide=(3, 8))
def test_shapes_window_larger_than_x(R, S):
    puzzle.check_or_raises(*images(1, 2, 6, 7, 4, R, S), names="weight")


def test_shapes_dilated_window_larger_than_x():
    puzzle.check_or_raises(*images(1, 2, 6, 7, 4, 3, 3), 1, 0, 3, names="weight")


@cases(zero=(0,), negative=(-1,), one_side=((1, 0),), three=((1, 1, 1),), fraction=(1.5,))
def test_shapes_stride_and_dilation(value):
    inputs = images(1, 2, 6, 7, 4, 2, 2)
    puzzle.check_or_raises(*inputs, stride=value, names="stride")
    puzzle.check_or_raises(*inputs, dilation=value, names="dilation")


@cases(negative=(-1,), one_side=((0, -1),), three=((1, 1, 1),), fraction=(0.5,))
def test_shapes_padding(padding):
    puzzle.check_or_raises(*images(1, 2, 6, 7, 4, 2, 2), padding=padding, names="padding")


@cases(zero=0, negative=-2, no_divisor=3)
def test_shapes_groups(groups):
    puzzle.check_or_raises(*images(1, 4, 6, 7, 6, 2, 2), groups=groups, names="groups")


# Any size and layout.


@cases(
    stride_of_one_side=((1, 2), 1, 1),
    padding_of_one_side=(1, (2, 0), 1),
    dilation_of_one_side=(1, 1, (1, 2)),
    all_differ=((3, 2), (1, 2), (2, 3)),
    padding_beyond_the_window=(1, (4, 5), 1),
)
def test_shapes_pairs(stride, padding, dilation):
    x, weight = images(2, 3, 9, 11, 4, 3, 2)
    puzzle.check(x.abs() + 1, weight, stride, padding, dilation)


@cases(
    two_groups=(6, 4, 2),
    many_groups=(48, 96, 24),
    depthwise=(20, 20, 20),
    depthwise_several_filters=(5, 15, 5),
    wide_groups=(80, 6, 2),
    more_filters_than_a_tile=(4, 600, 2),
)
def test_masks_groups(C, K, groups):
    x, weight = images(2, C, 5, 6, K, 3, 3, groups=groups)
    puzzle.check(x.abs() + 1, weight, 1, 1, groups=groups)


@cases(few_channels=(3, 4), many_channels=(70, 20))
def test_masks_every_stride(C, K):
    x, weight = images(2, C, 7, 6, K, 3, 3)
    puzzle.check(strided(x, 2, 1, 3, 2), strided(weight, 3, 2, 2, 1), 2, 1)
    puzzle.check(x.permute(0, 1, 3, 2), weight.permute(0, 1, 3, 2), 2, 1)


@cases(
    contiguous=((1, 64, 32, 34, 80, 3, 3), 1),
    ragged=((3, 45, 19, 23, 129, 3, 3), 1),
    groups=((1, 80, 45, 40, 100, 3, 3), 2),
    half=((1, 64, 35, 31, 136, 3, 3, "float16"), 1),
    half_and_many_channels=((1, 128, 15, 60, 72, 3, 3, "float16"), 1),
)
def test_masks_large(sizes, groups):
    x, weight = images(*sizes, groups=groups)
    puzzle.check(x.abs() + 1, weight, 1, 1, groups=groups)


@cases(images=(False, True), filters=(True, False), neither=(True, True))
def test_masks_large_and_strided(x_is_last, weight_is_last):
    x, weight = images(2, 70, 21, 32, 96, 3, 3)
    x = channels_last(x)[0] if x_is_last else strided(x, 1, 1, 2, 1)
    weight = channels_last(weight)[0] if weight_is_last else strided(weight, 2, 1, 1, 1)
    puzzle.check(x, weight, 1, 1)


def test_masks_unaligned():
    x, weight = images(1, 64, 4, 4, 32, 3, 3, "float16")
    puzzle.check(offset(x), offset(weight, 3), 1, 1)
    puzzle.check(offset(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), weight, 1, 1)


def test_masks_expanded():
    x, weight = images(1, 1, 6, 7, 1, 3, 3)
    puzzle.check(x.expand(2, 5, 6, 7), weight.expand(4, 5, 3, 3), 1, 1)
    puzzle.check(x[..., :1].expand(2, 5, 6, 7), weight[..., :1, :1].expand(4, 5, 3, 3), 1, 1)


@cases(images=0, channels=1, rows=2, columns=3)
def test_masks_offsets_into_x_beyond_32_bits(dim):
    shape = [1, 2, 3, 3]
    shape[dim] = 3
    x = along(far_apart(integers(3, dtype="float16")), dim, *shape)
    puzzle.check_offsets(x, integers(2, shape[1], 3, 3, dtype="float16"), 1, 1)
    puzzle.check_offsets(x, integers(2, shape[1], 1, 1, dtype="float16"))


@cases(filters=0, channels=1, rows=2, columns=3)
def test_masks_offsets_into_weight_beyond_32_bits(dim):
    weight = along(far_apart(integers(3, dtype="float16")), dim, 3, 3, 3, 3)
    puzzle.check_offsets(integers(1, 3, 4, 4, dtype="float16"), weight, 1, 1)


@cases(padding=(3, 1, 1, 1), stride=(5, 4, 0, 1), dilation=(5, 1, 0, 4))
def test_masks_steps_beyond_32_bits(size, stride, padding, dilation):
    # Only a stride of memory times padding, stride or dilation overflows.
    weight = integers(1, 1, 2, 2, dtype="float16")
    far = far_apart(integers(size, dtype="float16"))
    for dim in (2, 3):
        shape = (1, 1, size, size)
        puzzle.check_offsets(along(far, dim, *shape), weight, stride, padding, dilation)


def test_masks_groups_beyond_32_bits():
    far = far_apart(integers(3, dtype="float16"))
    x, weight = images(1, 3, 3, 3, 3, 1, 1, "float16", groups=3)
    puzzle.check_offsets(along(far, 1, 1, 3, 3, 3), weight, groups=3)
    puzzle.check_offsets(x, along(far, 0, 3, 1, 1, 1), groups=3)


def test_masks_result_beyond_32_bits():
    x, weight = images(1, 1, 1, 1, 1, 1, 1, "float16")
    puzzle.check_large_offsets(x.expand(65, 1, 1024, 32), weight.expand(1025, 1, 1, 1))


@cases(pixels=(4097, 1), groups=(1, 65537))
def test_masks_more_programs_than_axis_1_takes(side, groups):
    x, weight = images(1, 1, 1, 1, 1, 1, 1, "float16")
    x = x.expand(1, groups, side, side)
    puzzle.check_grid(x, weight.expand(groups, 1, 1, 1), groups=groups)


def test_masks_limits():
    def build(N, C, P, Q, K, R, S, groups):
        x, weight = images(N, C * groups, P + R - 1, Q + S - 1, K * groups, R, S, groups=groups)
        # The last term of each sum is a large one.
        weight[..., -1, -1, -1] = 2**11
        return x.abs() + 1, weight.abs() + 1, 1, 0, 1, groups

    puzzle.limits(
        build,
        dtypes=FLOATS,
        N=2**17,
        C=2**14,
        P=2**14,
        Q=2**14,
        K=2**14,
        R=2**9,
        S=2**9,
        groups=2**12,
    )


# Any value.


def test_numerics_special_values():
    x, weight = images(2, 5, 8, 9, 4, 3, 3, make=randn)
    x[0, 1, 3, 4], x[0, 2, 0, 0], x[1, 4, 7, 8] = NAN, INF, -INF
    puzzle.check(x, weight, 1, 1)
    puzzle.check(x, weight, 2, 0)


@dtypes("bfloat16", "float32")
def test_numerics_beyond_the_range_of_float16(dtype):
    x, weight = images(1, 5, 8, 9, 4, 3, 3, dtype, randn)
    puzzle.check(x * 1e6, weight, 1, 1)


@cases(few_channels=(3, 1), many_channels=(70, 1), groups=(24, 3))
def test_numerics(C, groups):
    puzzle.check(*images(1, C, 8, 9, 12, 5, 5, "float16", randn, groups), 2, 2, groups=groups)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (*images(2, 5, 8, 9, 4, 3, 3, "float16", randn), 1, 1), "x weight"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_few_channels():
    x, weight = images(2, 3, 32, 32, 64, 7, 7, "float16", randn)
    least = 2 * 16 * 16 * 64 * 3 * 7 * 7
    puzzle.traffic(x, weight, 2, 3).check(writes=1, launches=1, scratch=0, dot_macs=1.5 * least)


def test_traffic_channels_last():
    inputs = channels_last(*images(2, 64, 16, 16, 64, 3, 3, "float16", randn))
    puzzle.traffic(*inputs, 1, 1).check(
        reads={"x": 9 * 2, "weight": 16},
        writes=1,
        launches=1,
        scratch=0,
        sectors={"x": 1.1, "weight": 1.1, "result": 1.1},
    )


def test_traffic_large():
    # A copy of each with channels last may come first.
    puzzle.traffic(*images(2, 64, 32, 32, 64, 3, 3, "float16", randn), 1, 1).check(
        reads={"x": 9 * 2, "weight": 2 * 32 * 32 // 32},
        writes=1,
        launches=3,
        scratch=math.inf,
        sectors={"result": 1.1},
    )


def test_compiles_few_channels():
    puzzle.compiles(*images(2, 3, 32, 32, 64, 7, 7, "float16", randn), 2, 3)


def test_compiles_groups():
    puzzle.compiles(*images(2, 8, 8, 8, 8, 3, 3, "float16", randn, 8), 1, 1, groups=8)


@cases(float16=("float16", True), float32=("float32", True), contiguous=("bfloat16", False))
def test_compiles_large(dtype, last):
    inputs = images(1, 256, 32, 32, 256, 3, 3, dtype, randn)
    puzzle.compiles(*(channels_last(*inputs) if last else inputs), 1, 1)


def test_compiles_sizes_of_1():
    puzzle.compiles(*images(1, 1, 1, 1, 1, 1, 1, "float16", randn))


def test_compiles_offsets_of_64_bits():
    x = along(far_apart(integers(64, dtype="float16")), 1, 1, 64, 3, 3)
    puzzle.compiles(x, integers(32, 64, 3, 3, dtype="float16"), 1, 1)


@cases(pytorch=None, our_solution="solution")
def test_speedup(baseline):
    inputs = channels_last(*images(32, 256, 56, 56, 256, 3, 3, "float16", randn))
    work = (2 * 32 * 56 * 56 * 256 * 256 * 9, "float16")
    if baseline is None:
        puzzle.race(*inputs, 1, 1, at_least=0.65, operations=work)
    else:
        puzzle.race(*inputs, 1, 1, at_least=0.9, operations=work, baseline=baseline)
