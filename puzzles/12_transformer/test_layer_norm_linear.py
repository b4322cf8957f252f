"""Tests of 12.4, layer norm and linear layer."""

from course.challenge import challenge
from course.inputs import cases, dtypes, randn, tensor

puzzle = challenge("layer_norm_linear", input_precision="tf32", rounded=True)


def layer(M, N, K, dtype="float32", mean=0.0):
    x, weight = randn(M, K, dtype=dtype) + mean, randn(N, K, dtype=dtype)
    vectors = (randn(size, dtype=dtype) for size in (K, K, N))
    norm_weight, norm_bias, bias = vectors
    return x, norm_weight + 1, norm_bias, weight, bias


@cases(one_tile=(32, 32, 64), one_row=(1, 70, 40), one_column=(70, 1, 40), single_element=(1, 1, 1))
def test_shapes(M, N, K):
    puzzle.check(*layer(M, N, K))


@cases(
    ragged_everywhere=(67, 35, 131),
    several_tiles_each_way=(130, 290, 48),
    rows_longer_than_a_block=(2, 20, 1300),
)
def test_masks(M, N, K):
    # Far from 0, a lane of 0 past the end of a row counts for much.
    puzzle.check(*layer(M, N, K, mean=3.0))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*layer(33, 50, 100, dtype))


def test_numerics_norm_bias_before_the_product():
    x, norm_weight, norm_bias, weight, bias = layer(20, 24, 40)
    puzzle.check(x, norm_weight * 0, norm_bias, weight, bias)


def test_numerics_eps_under_the_root():
    x, *rest = layer(20, 24, 40)
    puzzle.check(x * 1e-2, *rest, eps=1e-3)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    # Rows of +1 and -1: the products with them climb to 360 and come back.
    x = tensor([[1.0, -1.0]], dtype).repeat(16, 256)
    weight = tensor([[1.0, -1.0] * 128 + [-1.0, 1.0] * 128], dtype).repeat(16, 1) * 1.40625
    ones = tensor([1.0], dtype).repeat(512)
    puzzle.check(x, ones, ones * 0, weight + randn(16, 512, dtype=dtype) / 16, ones[:16], 0.0)


def test_traffic():
    M, N, K = 160, 288, 64
    puzzle.traffic(*layer(M, N, K, "float16")).check(
        reads={"x": 2 + N // 32, "weight": 1 + M // 32},
        writes=1,
        total_writes=M * N + 2 * M + 2 * N,
        launches=3,
        sectors={"result": 1.1, "weight": 1.1},
    )


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*layer(64, 128, 64, dtype))


def test_speedup():
    M, N, K = 8192, 4096, 4096
    inputs = layer(M, N, K, "bfloat16")
    puzzle.race(*inputs, at_least=0.6, operations=(2 * M * N * K, "bfloat16"))
