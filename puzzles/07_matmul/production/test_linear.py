"""Tests of 07.5, linear layer, in production."""

import pytest

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    cases,
    dtypes,
    far_apart,
    integers,
    large_at_the_end,
    offset,
    randn,
    strided,
    tensor,
    uniform,
)
from course.values import special_values

puzzle = challenge("linear", input_precision="tf32")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    x, weight, bias = randn(8, 5), randn(6, 5), randn(6)
    puzzle.check_or_raises(x[0], weight, bias, None, names="x")
    puzzle.check_or_raises(x[None], weight, bias, None, names="x")


def test_shapes_x_of_another_dtype():
    x, weight, bias = randn(8, 5), randn(6, 5), randn(6)
    puzzle.check_or_raises(x.double(), weight.double(), bias.double(), None, names="x")
    puzzle.check_or_raises(integers(8, 5, dtype="int32"), weight, bias, None, names="x")


def test_shapes_weight_does_not_fit_x():
    x, weight, bias = randn(8, 5), randn(6, 5), randn(6)
    puzzle.check_or_raises(x, weight[0], bias, None, names="weight")
    puzzle.check_or_raises(x, weight[..., None], bias, None, names="weight")
    puzzle.check_or_raises(x, weight.T, bias, None, names="weight")
    puzzle.check_or_raises(x, weight[:, :4], bias, None, names="weight")
    puzzle.check_or_raises(x, weight.half(), bias, None, names="weight")


def test_shapes_bias_does_not_fit_weight():
    x, weight, bias = randn(8, 5), randn(6, 5), randn(6)
    puzzle.check_or_raises(x, weight, bias[:5], None, names="bias")
    puzzle.check_or_raises(x, weight, bias[:1], None, names="bias")
    puzzle.check_or_raises(x, weight, bias[None], None, names="bias")
    puzzle.check_or_raises(x, weight, bias.half(), None, names="bias")


@cases(tanh="tanh", empty="", other_case="ReLU")
def test_shapes_unknown_activation(activation):
    inputs = randn(8, 5), randn(6, 5), randn(6), activation
    puzzle.check_or_raises(*inputs, names="activation", answer=False)


# Any size and layout.


def test_masks_both_transposed():
    puzzle.check(integers(56, 40).T, integers(56, 24).T, integers(24), None)


def test_masks_all_strides_differ():
    x, weight, bias = integers(37, 50), integers(41, 50), integers(41)
    puzzle.check(strided(x, 2, 3), strided(weight, 5, 2), strided(bias, 3), "relu")


def test_masks_one_bias_repeated():
    weight, bias = integers(41, 50), integers(1)
    puzzle.check(integers(37, 50), offset(weight), bias.expand(41), None)


@cases(rows_are_aligned=(520, 264, 520), rows_are_not=(517, 259, 515))
def test_masks_large(M, N, K):
    # Where a kernel may load in another way, or copy its factors first.
    x, weight, bias = (integers(*shape, dtype="float16") for shape in ((M, K), (N, K), (N,)))
    puzzle.check(x, weight, bias, "relu")


def test_masks_offsets_beyond_32_bits():
    far, near = far_apart(integers(3, dtype="float16")), integers(3, dtype="float16")
    puzzle.check(far[:, None], near[:, None], near, None)
    puzzle.check(near[:, None], far[:, None], near, None)
    puzzle.check(far[None, :], near[None, :], near[:1], None)
    puzzle.check(near[None, :], far[None, :], near[:1], None)
    puzzle.check(near[:, None], near[:, None], far, None)


@cases(steps_of_16=17, steps_of_32=33, steps_of_64=65)
def test_masks_steps_beyond_32_bits(K):
    # Only the stride times the length of a step overflows.
    far, near = far_apart(integers(K, dtype="float16")), integers(K, dtype="float16")
    puzzle.check_offsets(far[None, :], near[None, :], near[:1], None)
    puzzle.check_offsets(near[None, :], far[None, :], near[:1], None)


def test_masks_result_beyond_32_bits():
    x, M, N = randn(1, 16, dtype="float16"), 2**16, 2**15 + 1
    puzzle.check_large_offsets(x.expand(M, 16), x.expand(N, 16), x[0, :1].expand(N), None)


@cases(columns=(1, 2**24 + 1), rows=(2**23 + 1, 1))
def test_masks_more_tiles_than_axis_1_takes(M, N):
    x = randn(1, 1, dtype="float16")
    puzzle.check_grid(x.expand(M, 1), x.expand(N, 1), x[0].expand(N), None)


def test_masks_limits():
    def build(M, N, K):
        x, weight = large_at_the_end(randn(M, K), randn(K, N))
        return x, weight.T.contiguous(), randn(N), None

    puzzle.limits(build, dtypes=FLOATS, M=2**17, N=2**17, K=2**17)


# Any value.


@dtypes("bfloat16", "float32")
def test_numerics_beyond_the_range_of_float16(dtype):
    x, weight = randn(20, 70, dtype=dtype), randn(24, 70, dtype=dtype)
    puzzle.check(x * 1e6, weight, randn(24, dtype=dtype), None)


@dtypes("float32", "float16", "bfloat16")
def test_numerics_gelu_by_erf(dtype):
    x = uniform(64, 1, low=-6, high=6, dtype=dtype)
    puzzle.check(x, uniform(3, 1, low=0.5, high=2, dtype=dtype), integers(3, dtype=dtype), "gelu")


@pytest.mark.parametrize("activation", [None, "gelu"])
@cases(float16=("float16", 1024), bfloat16=("bfloat16", 128))
def test_numerics_bias_before_rounding(dtype, whole_above, activation):
    # The sums need more bits than the dtype has; once the bias is added they fit.
    x = tensor([[whole_above, half] for half in (0.5, 1.5, 2.5, 3.5)], dtype)
    puzzle.check_exactly(x, tensor([[1, 1]], dtype), tensor([-whole_above], dtype), activation)


@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
def test_numerics_special_values(activation):
    x, weight, bias = randn(20, 30), randn(24, 30), randn(24)
    x[3, 5], x[4, 29], bias[7] = float("nan"), float("inf"), float("nan")
    puzzle.check(x, weight, bias, activation)


test_numerics_each_special_value = special_values(
    puzzle,
    lambda: (
        randn(20, 30, dtype="float16"),
        randn(24, 30, dtype="float16"),
        randn(24, dtype="float16"),
        None,
    ),
    "x weight bias",
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_transposed():
    puzzle.traffic(randn(40, 64).T, randn(40, 96).T, randn(96), None).check(writes=1, launches=1)


def test_traffic_long_sums():
    x = randn(16, 4160, dtype="float16")
    puzzle.traffic(x, x.clone(), randn(16, dtype="float16"), None).check(writes=1, launches=1)


@cases(none=("float16", None), relu=("float32", "relu"))
def test_compiles_activations(dtype, activation):
    x, weight = randn(64, 64, dtype=dtype), randn(128, 64, dtype=dtype)
    puzzle.compiles(x, weight, randn(128, dtype=dtype), activation)


def test_compiles_ragged():
    x, weight = randn(35, 67, dtype="bfloat16"), randn(33, 67, dtype="bfloat16")
    puzzle.compiles(x, weight, randn(33, dtype="bfloat16"), "relu")


def test_compiles_large():
    for K in (64, 67):
        x = randn(1024, K, dtype="float16")
        puzzle.compiles(x, x.clone(), randn(1024, dtype="float16"), None)


def test_speedup():
    x, weight = randn(4096, 4096, dtype="float16"), randn(4096, 4096, dtype="float16")
    inputs, work = (x, weight, randn(4096, dtype="float16"), "relu"), (2 * 4096**3, "float16")
    puzzle.race(*inputs, at_least=0.9, operations=work, baseline="solution")
