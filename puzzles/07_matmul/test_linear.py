"""Tests of 07.5, linear layer."""

import pytest

from course.challenge import challenge
from course.inputs import cases, climbing, dtypes, integers, randn, strided, tensor

puzzle = challenge("linear", input_precision="tf32")

activations = pytest.mark.parametrize("activation", [None, "relu", "gelu"])


def layer(M, N, K, dtype="float32", make=randn):
    return make(M, K, dtype=dtype), make(N, K, dtype=dtype), make(N, dtype=dtype)


@cases(one_tile=(32, 32, 32), one_row=(1, 70, 40), one_column=(70, 1, 40), single_element=(1, 1, 1))
def test_shapes(M, N, K):
    puzzle.check(*layer(M, N, K, make=integers), None)


@cases(
    ragged_everywhere=(67, 35, 131),
    several_tiles_each_way=(257, 290, 48),
    bias_added_in_every_step=(32, 48, 224),
)
def test_masks(M, N, K):
    puzzle.check(*layer(M, N, K, make=integers), "relu")


def test_masks_any_strides():
    x, weight, bias = integers(56, 40).T, integers(24, 56), integers(24)
    puzzle.check(x, strided(weight, 5, 2), bias, None)


@activations
@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype, activation):
    puzzle.check(*layer(33, 50, 100, dtype), activation)


@dtypes("float16", "bfloat16", "float32")
def test_numerics_sums_in_float32(dtype):
    ones = integers(16, 1024, low=1, high=2, dtype=dtype)
    puzzle.check_exactly(climbing(16, 1024, dtype), ones, ones[0, :16], None)


@cases(float16=("float16", 1024), bfloat16=("bfloat16", 128))
def test_numerics_bias_before_rounding(dtype, whole_above):
    # The sums need more bits than the dtype has; once the bias is added they fit.
    x = tensor([[whole_above, half] for half in (0.5, 1.5, 2.5, 3.5)], dtype)
    puzzle.check_exactly(x, tensor([[1, 1]], dtype), tensor([-whole_above], dtype), "relu")


def test_numerics_gelu_before_rounding():
    # In float16 the sum is -inf and its gelu NaN.
    minus = tensor([[-300.0]], "float16")
    puzzle.check(minus, -minus, minus[0], "gelu")


def test_traffic():
    puzzle.traffic(*layer(160, 288, 64, "float16"), "gelu").check(
        writes=1, launches=1, sectors={"result": 1.1}
    )


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*layer(64, 128, 64, dtype), "gelu")


def test_speedup():
    inputs = layer(4096, 4096, 4096, "float16")
    puzzle.race(*inputs, "relu", at_least=0.3, operations=(2 * 4096**3, "float16"))
