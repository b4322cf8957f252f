"""Tests of 05.4, the backward pass of layer norm."""

import torch

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, tensor, uniform

puzzle = challenge("layer_norm_backward", results=("dx", "dweight", "dbias"), deterministic=True)


def statistics(x, eps=1e-5):
    variance, mean = torch.var_mean(x.float(), 1, correction=0)
    return mean, torch.rsqrt(variance + eps)


def layer(M, N, dtype="float32"):
    x = randn(M, N, dtype=dtype)
    return randn(M, N, dtype=dtype), x, randn(N, dtype=dtype), *statistics(x)


def whole_numbers(M, N):
    """A layer whose gradients of weight and bias come out as sums of whole numbers."""
    x = (2 * integers(M, N, low=0, high=2) - 1).float()
    return integers(M, N, low=1), x, integers(N), tensor([0.0]).repeat(M), tensor([1.0]).repeat(M)


@cases(
    one_row=(1, 200), more_rows_than_columns=(130, 7), one_column=(300, 1), single_element=(1, 1)
)
def test_shapes(M, N):
    puzzle.check(*layer(M, N))


@cases(
    last_group_of_one_row=(129, 48),
    ragged_everywhere=(83, 300),
    one_short_of_a_block=(5, 1023),
    one_past_a_block=(5, 1025),
    columns_much_longer_than_rows=(1060, 70),
    longest=(2, 2500),
)
def test_masks(M, N):
    puzzle.check(*whole_numbers(M, N))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*layer(70, 300, dtype))


@dtypes("float16", "bfloat16")
def test_numerics_column_sums_in_half_precision(dtype):
    _, x, weight, mean, rstd = layer(400, 20, dtype)
    puzzle.check(uniform(400, 20, low=0.5, high=1.5, dtype=dtype), x, weight, mean, rstd)


@dtypes("float16", "bfloat16")
def test_numerics_parts_in_half_precision(dtype):
    dy, x, weight, mean, rstd = layer(400, 20, dtype)
    dy[:200] += 8
    dy[200:] -= 8
    puzzle.check(dy, x, weight, mean, rstd)


@cases(few_groups=(100, 70), many_groups=(300, 40))
def test_numerics_same_bits_in_any_order(M, N):
    dy, x, weight, mean, rstd = layer(M, N)
    puzzle.check(dy * 1000, x, weight, mean, rstd)


def test_traffic():
    M, N = 512, 104
    puzzle.traffic(*layer(M, N)).check(
        reads={"dy": 1, "x": 1, "dx": 0},
        writes={"dx": 1},
        total_writes=1.1 * M * N,
        launches=2,
        sectors={"dy": 1.1, "x": 1.1, "dx": 1.1},
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*layer(83, 1000, dtype))


def test_speedup():
    puzzle.race(*layer(16384, 4096, "bfloat16"), at_least=7)
