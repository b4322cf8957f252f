"""Tests of 11.3, int8 matmul."""

import pytest
import torch

from course.challenge import challenge
from course.inputs import cases, integers, tensor, uniform

puzzle = challenge("int8_matmul")

out_dtypes = [torch.bfloat16, torch.float16, torch.float32]


def whole(*shape):
    return integers(*shape, low=-128, high=128, dtype="int8")


def layer(M, N, K):
    # No two rows have one scale, nor have two columns.
    return whole(M, K), whole(N, K), uniform(M, low=1e-3, high=1e-2), uniform(N, low=1e-3, high=1)


def ones(size):
    return tensor([1.0]).repeat(size)


@cases(one_tile=(32, 32, 32), one_row=(1, 70, 40), one_column=(70, 1, 40), single_element=(1, 1, 1))
def test_shapes(M, N, K):
    puzzle.check(*layer(M, N, K))


@cases(
    ragged_everywhere=(67, 35, 131), several_tiles_each_way=(257, 290, 48), long_sum=(20, 33, 1000)
)
def test_masks(M, N, K):
    puzzle.check(*layer(M, N, K), torch.float32)


def test_masks_weight_transposed():
    x, weight, x_scale, weight_scale = layer(40, 24, 56)
    puzzle.check(x, weight.T.contiguous().T, x_scale, weight_scale)


def test_numerics_sums_are_exact():
    # The running sum is odd and beyond 2**24, where float32 holds even numbers only.
    x, weight = (tensor([[127] * 4096] * 16, "int8") for _ in range(2))
    x[:, 2048:] = -127
    x[:, 0], weight[:, 0] = 2, 1
    x[:, -1], weight[:, -1] = whole(16), whole(16)
    puzzle.check_exactly(x, weight, ones(16) * 4, ones(16) / 2, torch.float32)


def test_numerics_least_int8():
    x = tensor([[-128] * 1023] * 16, "int8")
    puzzle.check_exactly(x, x.clone(), ones(16), ones(16), torch.float32)


@pytest.mark.parametrize("dtype", out_dtypes, ids=["bfloat16", "float16", "float32"])
def test_numerics(dtype):
    puzzle.check(*layer(33, 50, 300), dtype)


def test_numerics_scaled_before_rounding():
    # The sums are beyond the range of float16; scaled they are not.
    x = tensor([[127] * 600] * 16, "int8")
    puzzle.check(x, x.clone(), ones(16) * 1e-3, ones(16), torch.float16)


def test_traffic():
    puzzle.traffic(*layer(128, 256, 128)).check(
        reads={"x": 256 // 32, "weight": 128 // 32},
        writes=1,
        launches=1,
        sectors={"result": 1.1},
        scratch=0,
    )


def test_compiles():
    puzzle.compiles(*layer(128, 256, 128))


def test_speedup():
    inputs, work = layer(8192, 8192, 8192), (2 * 8192**3, "int8")
    puzzle.race(*inputs, at_least=1.1, operations=work, baseline="int8_matmul_in_bfloat16")
