"""What 07.5, linear layer, is held to."""

import pytest

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor, uniform

puzzle = challenge("linear", input_precision="tf32")

activations = pytest.mark.parametrize("activation", [None, "relu", "gelu"])


def three(M, N, K, dtype="float32", make=randn):
    return make(M, K, dtype=dtype), make(N, K, dtype=dtype), make(N, dtype=dtype)


def climbing(M, K, dtype):
    """Rows that sum up to 4096 on their way to a small sum: 16 bits lose odd numbers up there."""
    a = integers(M, K, dtype=dtype)
    a[:, : K // 2] += 8
    a[:, K // 2 :] -= 8
    return a


@activations
@cases(one_row=(1, 70, 40), one_column=(70, 1, 40), single_element=(1, 1, 1))
def test_shapes(M, N, K, activation):
    puzzle.check(*three(M, N, K), activation)


def test_shapes_of_bad_input():
    x, weight, bias = three(8, 6, 5)
    puzzle.rejects(ValueError, x[0], weight, bias, None, naming="x")
    puzzle.rejects(ValueError, x[None], weight, bias, None, naming="x")
    double = [tensor.double() for tensor in (x, weight, bias)]
    puzzle.rejects(ValueError, *double, None, naming="x")
    puzzle.rejects(ValueError, x, weight[0], bias, None, naming="weight")
    puzzle.rejects(ValueError, x, weight[..., None], bias, None, naming="weight")
    puzzle.rejects(ValueError, integers(8, 5, dtype="int32"), weight, bias, None, naming="x")
    puzzle.rejects(ValueError, x, weight.T, bias, None, naming="weight")
    puzzle.rejects(ValueError, x, weight[:, :4], bias, None, naming="weight")
    puzzle.rejects(ValueError, x, weight.half(), bias, None, naming="weight")
    puzzle.rejects(ValueError, x, weight, bias[:5], None, naming="bias")
    puzzle.rejects(ValueError, x, weight, bias[:1], None, naming="bias")
    puzzle.rejects(ValueError, x, weight, bias[None], None, naming="bias")
    puzzle.rejects(ValueError, x, weight, bias.half(), None, naming="bias")
    puzzle.rejects(ValueError, x, weight, bias, "tanh", naming="activation")
    puzzle.rejects(ValueError, x, weight, bias, "", naming="activation")
    puzzle.rejects(ValueError, x, weight, bias, "ReLU", naming="activation")


@cases(
    ragged_everywhere=(67, 35, 131),
    several_tiles_each_way=(150, 270, 48),
    bias_in_the_first_step_only=(32, 48, 224),
)
def test_masks(M, N, K):
    puzzle.check(*three(M, N, K, make=integers), "relu")


def test_masks_transposed_operands():
    puzzle.check(integers(56, 40).T, integers(56, 24).T, integers(24), None)


def test_masks_all_strides_differ():
    x, weight, bias = three(37, 41, 50, make=integers)
    puzzle.check(strided(x, 2, 3), strided(weight, 5, 2), strided(bias, 3), "relu")


def test_masks_one_bias_repeated():
    x, weight, _ = three(37, 41, 50, make=integers)
    puzzle.check(x, offset(weight), integers(1).expand(41), None)


def test_masks_offsets_beyond_32_bits():
    far, near = far_apart(integers(3, dtype="float16")), integers(3, dtype="float16")
    puzzle.check(far[:, None], near[:, None], near, None)
    puzzle.check(near[:, None], far[:, None], near, None)
    puzzle.check(far[None, :], near[None, :], near[:1], None)
    puzzle.check(near[None, :], far[None, :], near[:1], None)
    puzzle.check(near[:, None], near[:, None], far, None)


def test_masks_steps_beyond_32_bits():
    # Only a stride times the length of a step overflows: 65 is one past the first step.
    far, near = far_apart(integers(65, dtype="float16")), integers(65, dtype="float16")
    puzzle.check(far[None, :], near[None, :], near[:1], None)
    puzzle.check(near[None, :], far[None, :], near[:1], None)


def test_masks_result_beyond_32_bits():
    x, weight, bias = three(1, 1, 16, "float16")
    inputs = x.expand(2**16, 16), weight.expand(2**15 + 1, 16), bias.expand(2**15 + 1)
    puzzle.check_large_offsets(*inputs, None)


def test_masks_more_tiles_than_axis_1_takes():
    x, weight, bias = three(1, 1, 1, "float16")
    puzzle.check_grid(x, weight.expand(2**24 + 1, 1), bias.expand(2**24 + 1), None)
    puzzle.check_grid(x.expand(2**23 + 1, 1), weight, bias, None)


@activations
@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype, activation):
    puzzle.check(*three(33, 50, 100, dtype), activation)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    ones = integers(16, 1024, low=1, high=2, dtype=dtype)
    puzzle.check_exactly(climbing(16, 1024, dtype), ones, ones[0, :16], None)


@dtypes("bfloat16", "float32")
def test_numerics_range_of_float32(dtype):
    # Rounded to float16 on the way, these are inf.
    x, weight, bias = three(20, 24, 70, dtype)
    puzzle.check(x * 1e6, weight, bias, None)


@dtypes("float16", "bfloat16", "float32")
def test_numerics_gelu_of_small_and_large_values(dtype):
    x = uniform(64, 1, low=-6, high=6, dtype=dtype)
    puzzle.check(x, uniform(3, 1, low=0.5, high=2, dtype=dtype), integers(3, dtype=dtype), "gelu")


@dtypes("float16")
def test_numerics_gelu_before_rounding(dtype):
    # In float16 the sum is -inf and its gelu NaN.
    minus = tensor([[-300.0]], dtype)
    puzzle.check(minus, -minus, minus[0], "gelu")


@activations
@cases(float16=("float16", 1024), bfloat16=("bfloat16", 128))
def test_numerics_bias_before_rounding(dtype, whole_above, activation):
    # The sums are no numbers of the dtype; with the bias they are.
    x = tensor([[whole_above, half] for half in (0.5, 1.5, 2.5, 3.5)], dtype)
    puzzle.check_exactly(x, tensor([[1, 1]], dtype), tensor([-whole_above], dtype), activation)


@activations
def test_numerics_special_values(activation):
    x, weight, bias = three(20, 24, 30)
    x[3, 5], x[4, 29], bias[7] = float("nan"), float("inf"), float("nan")
    puzzle.check(x, weight, bias, activation)


def test_traffic():
    puzzle.traffic(*three(160, 288, 64, "float16"), "gelu").check(
        writes=1, launches=1, sectors={"result": 1.1}
    )


def test_traffic_transposed_operands():
    puzzle.traffic(randn(40, 64).T, randn(40, 96).T, randn(96), None).check(writes=1, launches=1)


def test_traffic_long_sums():
    puzzle.traffic(*three(16, 16, 8192, "float16"), None).check(writes=1, launches=1)


@activations
@dtypes("float16", "float32")
def test_compiles(dtype, activation):
    puzzle.compiles(*three(64, 128, 64, dtype), activation)


def test_compiles_ragged():
    puzzle.compiles(*three(35, 33, 67, "bfloat16"), "relu")


def test_compiles_large():
    puzzle.compiles(*three(1024, 1024, 16, "float16"), None)


def test_speedup():
    inputs = three(4096, 4096, 4096, "float16")
    puzzle.race(*inputs, "relu", at_least=0.8, operations=(2 * 4096**3, "float16"))
