"""Tests of 10.1, causal 1-D convolution, in production."""

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    along,
    cases,
    dtypes,
    far_apart,
    integers,
    offset,
    randn,
    strided,
    tensor,
)
from course.values import special_values

puzzle = challenge("causal_conv1d")
INF, NAN = float("inf"), float("nan")


def channels(B, D, L, W, dtype="float32", make=integers):
    return make(B, D, L, dtype=dtype), make(D, W, dtype=dtype), make(D, dtype=dtype)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_of_three_dimensions():
    x, weight, bias = channels(2, 3, 9, 4)
    puzzle.check_or_raises(x[0], weight, bias, names="x")
    puzzle.check_or_raises(x[None], weight, bias, names="x")


@dtypes("float64", "int32")
def test_shapes_x_of_another_dtype(dtype):
    puzzle.check_or_raises(*channels(2, 3, 9, 4, dtype, randn), names="x")


def test_shapes_weight_does_not_fit_x():
    x, weight, bias = channels(2, 3, 9, 4)
    for wrong in (weight[:2], weight[:1], weight[0], weight[:, None], weight.T, weight.half()):
        puzzle.check_or_raises(x, wrong, bias, names="weight")


@cases(empty=0, of_9=9, of_12=12)
def test_shapes_window(W):
    puzzle.check_or_raises(*channels(2, 3, 12, W), names="weight")


def test_shapes_bias_does_not_fit_weight():
    x, weight, bias = channels(2, 3, 9, 4)
    for wrong in (bias[:2], bias[:1], bias[None], bias.half()):
        puzzle.check_or_raises(x, weight, wrong, names="bias")


@cases(other_case="SiLU", another="relu", empty="", flag=True)
def test_shapes_unknown_activation(activation):
    puzzle.check_or_raises(*channels(2, 3, 9, 4), activation, names="activation", answer=False)


# Any size and layout.


@cases(w_1=1, w_2=2, w_3=3, w_5=5, w_6=6, w_7=7, w_8=8)
def test_shapes(W):
    puzzle.check(*channels(2, 3, 37, W))


def test_masks_every_stride():
    x, weight, bias = channels(2, 37, 70, 4)
    puzzle.check(strided(x, 2, 3, 2), strided(weight, 3, 2), strided(bias, 2))


def test_masks_transposed():
    x, weight, bias = integers(70, 41, 5).permute(2, 1, 0), integers(3, 41).T, integers(41)
    puzzle.check(x, weight, bias)


@cases(aligned_but_for_x=1, odd=3)
def test_masks_unaligned(elements):
    x, weight, bias = channels(2, 3, 256, 4, "float16")
    puzzle.check(offset(x, elements), offset(weight), offset(bias))


def test_masks_expanded():
    x, weight, bias = integers(1, 1, 70), integers(1, 4), integers(1)
    puzzle.check(x.expand(2, 37, 70), weight.expand(37, 4), bias.expand(37))
    puzzle.check(integers(2, 5, 1).expand(2, 5, 70), integers(5, 1).expand(5, 4), integers(5))


@cases(batches=0, channels=1, times=2)
def test_masks_offsets_into_x_beyond_32_bits(dim):
    x = along(far_apart(integers(3, dtype="float16")), dim, 3, 3, 3)
    puzzle.check_offsets(x, integers(3, 4, dtype="float16"), integers(3, dtype="float16"))


@cases(tiles_of_64=65, tiles_of_1024=1025)
def test_masks_second_tile_beyond_32_bits(length):
    # Only a stride times the length of a tile overflows.
    weight, bias = integers(1, 4, dtype="float16"), integers(1, dtype="float16")
    far = far_apart(integers(length, dtype="float16"))
    puzzle.check_offsets(far[None, None, :], weight, bias)
    puzzle.check_offsets(far[None, :, None], weight.expand(length, 4), bias.expand(length))


@cases(channels=(0, 1), taps=(1, 1), bias=(0, 2))
def test_masks_offsets_into_weight_and_bias_beyond_32_bits(dim, which):
    inputs = list(channels(2, 3, 9, 3, "float16"))
    far = far_apart(integers(3, dtype="float16"))
    inputs[which] = along(far, dim, 3, 3) if which == 1 else far
    puzzle.check_offsets(*inputs)


def test_masks_result_beyond_32_bits():
    x, weight, bias = channels(1, 1, 1, 4, "float16")
    puzzle.check_large_offsets(x.expand(513, 4096, 1024), weight.expand(4096, 4), bias.expand(4096))


@cases(batches=(65537, 1), channels=(1, 65537 * 128), both=(1025, 64 * 128))
def test_masks_more_programs_than_axis_1_takes(B, D):
    x, weight, bias = channels(1, 1, 1, 2, "float16")
    puzzle.check_grid(x.expand(B, D, 3), weight.expand(D, 2), bias.expand(D))


def test_masks_limits():
    puzzle.limits(
        lambda B, D, L, W: channels(B, D, L, W), dtypes=FLOATS, B=2**17, D=2**17, L=2**18, W=8
    )


# Any value.


def test_numerics_special_values():
    x, weight, bias = channels(2, 5, 40, 4, make=randn)
    x[0, 0, 20], x[0, 1, 39], x[1, 2, 9], bias[4] = INF, NAN, -INF, NAN
    puzzle.check(x, weight, bias)
    puzzle.check(x, weight, bias, "silu")


@dtypes("bfloat16", "float32")
def test_numerics_beyond_the_range_of_float16(dtype):
    x, weight, bias = channels(2, 5, 40, 4, dtype, randn)
    puzzle.check(x * 1e6, weight, bias)


@cases(w_1=1, w_8=8)
def test_numerics_windows(W):
    puzzle.check(*channels(2, 5, 100, W, "bfloat16", randn), "silu")


def test_numerics_silu_before_rounding():
    # In float16 the sum is -inf and its silu NaN.
    minus = tensor([[[-300.0]]], "float16")
    puzzle.check(minus, -minus[0], tensor([0.0], "float16"), "silu")


test_numerics_each_special_value = special_values(
    puzzle, lambda: channels(2, 5, 40, 4, "float16", randn), "x weight bias"
)


# Traffic, compilation and speed of what the first level leaves out.


@cases(w_1=1, w_2=2, w_8=8)
def test_traffic_windows(W):
    puzzle.traffic(*channels(2, 16, 1008, W, "float16", randn)).check(
        reads={"x": W}, writes=1, launches=1, scratch=0, sectors={"x": 1.3, "result": 1.1}
    )


def test_traffic_float32():
    puzzle.traffic(*channels(2, 16, 1000, 4, make=randn), "silu").check(
        reads={"x": 4}, writes=1, launches=1, scratch=0, sectors={"x": 1.3, "result": 1.1}
    )


@cases(contiguous=False, channels_last=True)
def test_traffic_long_tiles(transposed):
    x, weight, bias = channels(1, 16, 1024, 4, "float16", randn)
    x = x.transpose(1, 2).contiguous().transpose(1, 2) if transposed else x
    puzzle.traffic(x, weight, bias).check(distinct={"x": 1.15}, writes=1, launches=1)


@cases(window_of_1=1, window_of_8=8)
def test_compiles_windows(W):
    puzzle.compiles(*channels(2, 64, 300, W, "float16", randn))


def test_compiles_channels_last():
    x, weight, bias = channels(2, 64, 300, 4, "bfloat16", randn)
    x = x.transpose(1, 2).contiguous().transpose(1, 2)
    puzzle.compiles(x, weight, bias, "silu")


def test_compiles_sizes_of_1():
    puzzle.compiles(*channels(1, 1, 1, 1, "float16", randn))


def test_speedup():
    inputs = channels(8, 4096, 2048, 4, "bfloat16", randn)
    puzzle.race(*inputs, "silu", at_least=0.9, baseline="solution")
