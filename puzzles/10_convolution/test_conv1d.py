"""Tests of 10.1, causal 1-D convolution."""

import pytest

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, tensor

puzzle = challenge("causal_conv1d")

activations = pytest.mark.parametrize("activation", [None, "silu"])


def channels(B, D, L, W, dtype="float32", make=integers):
    return make(B, D, L, dtype=dtype), make(D, W, dtype=dtype), make(D, dtype=dtype)


@cases(
    window_of_4=(2, 3, 50, 4),
    window_of_1=(2, 3, 50, 1),
    window_of_8=(1, 5, 40, 8),
    shorter_than_the_window=(3, 4, 2, 4),
    single_element=(1, 1, 1, 1),
)
def test_shapes(B, D, L, W):
    puzzle.check(*channels(B, D, L, W))


@cases(
    ragged_rows=(3, 5, 67, 4),
    many_channels=(2, 131, 9, 3),
    several_tiles_along_time=(1, 2, 4500, 4),
    rows_that_touch=(2, 70, 33, 8),
)
def test_masks(B, D, L, W):
    # No zeros: a row that looks back into the row before it shows.
    x, weight, bias = channels(B, D, L, W)
    puzzle.check(x.abs() + 1, weight, bias)


@cases(several_tiles=(2, 70, 300), fewer_channels_than_lanes=(3, 5, 40))
def test_masks_channels_last(B, D, L):
    x = integers(B, L, D)
    puzzle.check(x.transpose(1, 2), integers(D, 4), integers(D))


@activations
@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype, activation):
    puzzle.check(*channels(2, 9, 200, 4, dtype, randn), activation)


def test_numerics_products_in_float32():
    # 300 * 300 is inf in float16, and the sum NaN.
    x = tensor([[[300.0, 300.0, 300.0]]], "float16")
    puzzle.check_exactly(x, tensor([[300.0, -300.0]], "float16"), tensor([1.0], "float16"))


@cases(float16=("float16", 1024), bfloat16=("bfloat16", 128))
def test_numerics_bias_before_rounding(dtype, whole_above):
    # The sums need more bits than the dtype has; once the bias is added they fit.
    x = tensor([[[whole_above, half, whole_above, half + 1]] for half in (0.5, 2.5)], dtype)
    weight, bias = tensor([[1, 1]], dtype), tensor([-whole_above], dtype)
    puzzle.check_exactly(x, weight, bias)


def test_numerics_silu_of_large_numbers():
    x = tensor([[[-1000.0, 1000.0, -90.0, 0.0]]])
    puzzle.check(x, tensor([[1.0]]), tensor([0.0]), "silu")


@cases(contiguous=False, channels_last=True)
def test_traffic(transposed):
    x, weight, bias = channels(2, 64, 1008, 4, "float16", randn)
    x = x.transpose(1, 2).contiguous().transpose(1, 2) if transposed else x
    puzzle.traffic(x, weight, bias, "silu").check(
        reads={"x": 4}, writes=1, launches=1, sectors={"x": 2.1, "result": 1.1}
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*channels(2, 64, 300, 4, dtype, randn), "silu")


def test_speedup():
    puzzle.race(*channels(8, 4096, 2048, 4, "bfloat16", randn), "silu", at_least=3.5)
