"""What 05.4, the backward pass of layer norm, is held to."""

import torch

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor, uniform

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
    single_element=(1, 1),
    one_row=(1, 1000),
    one_column=(200, 1),
    more_rows_than_columns=(130, 7),
)
def test_shapes(M, N):
    puzzle.check(*layer(M, N))


def test_shapes_of_bad_input():
    dy, x, weight, mean, rstd = layer(4, 5)
    puzzle.rejects(ValueError, dy[0], x[0], weight, mean, rstd, naming="x")
    puzzle.rejects(ValueError, dy[None], x[None], weight, mean, rstd, naming="x")
    whole = integers(4, 5, dtype="int32")
    puzzle.rejects(ValueError, whole, whole, whole[0], mean, rstd, naming="x")
    puzzle.rejects(ValueError, *layer(1, 2**14 + 1), naming="x")
    puzzle.rejects(ValueError, dy[1:], x, weight, mean, rstd, naming="dy")
    puzzle.rejects(ValueError, dy.half(), x, weight, mean, rstd, naming="dy")
    puzzle.rejects(ValueError, dy, x, weight[1:], mean, rstd, naming="weight")
    puzzle.rejects(ValueError, dy, x, weight.half(), mean, rstd, naming="weight")
    puzzle.rejects(ValueError, dy, x, weight, mean[1:], rstd, naming="mean")
    puzzle.rejects(ValueError, dy, x, weight, mean.half(), rstd, naming="mean")
    puzzle.rejects(ValueError, dy, x, weight, mean, rstd[:, None], naming="rstd")
    puzzle.rejects(ValueError, dy, x, weight, mean, rstd.double(), naming="rstd")


@cases(
    one_short_of_a_block=(5, 1023),
    one_past_a_block=(5, 1025),
    last_group_of_one_row=(129, 48),
    ragged_everywhere=(83, 700),
    longest=(2, 2**14),
)
def test_masks(M, N):
    puzzle.check(*whole_numbers(M, N))


def test_masks_columns_much_longer_than_rows():
    puzzle.check(*whole_numbers(1200, 70))


def test_masks_transposed():
    dy, x, weight, mean, rstd = layer(41, 300)
    puzzle.check(dy.T.contiguous().T, x, weight, mean, rstd)
    puzzle.check(dy, x.T.contiguous().T, weight, mean, rstd)


def test_masks_every_stride():
    dy, x, weight, mean, rstd = layer(37, 130)
    puzzle.check(
        strided(dy, 2, 3), strided(x, 1, 2), strided(weight, 2), strided(mean, 3), strided(rstd, 5)
    )


def test_masks_unaligned():
    dy, x, weight, mean, rstd = layer(36, 256)
    puzzle.check(offset(dy), offset(x, 3), offset(weight), offset(mean), offset(rstd))


@cases(gradient_of_a_sum=(1, 1), rows=(1, 300), columns=(50, 1))
def test_masks_expanded(M, N):
    _, x, weight, mean, rstd = layer(50, 300)
    puzzle.check(randn(M, N).expand(50, 300), x, weight, mean, rstd)


def test_masks_offsets_beyond_32_bits():
    far, near = far_apart(tensor([1, 5, 3], dtype="float16")), randn(3, dtype="float16")
    row, column = near[None, :], near[:, None]
    puzzle.check(row, far[None, :], near, *statistics(far[None, :]))
    puzzle.check(far[None, :], row, near, *statistics(row))
    puzzle.check(row, row, far, *statistics(row))
    mean, rstd = tensor([0.5, 1.0, 2.0]), tensor([1.0, 2.0, 0.5])
    puzzle.check(column, far[:, None], near[:1], mean, rstd)
    puzzle.check(far[:, None], column, near[:1], mean, rstd)


def test_masks_statistics_beyond_32_bits():
    column, weight = randn(3, 1, dtype="float16"), randn(1, dtype="float16")
    near, far = tensor([1.0, 2.0, 0.5]), far_apart(tensor([0.5, 1.0, 2.0]))
    puzzle.check(column, column, weight, far, near)
    puzzle.check(column, column, weight, near, far)


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(*layer(70, 1000, dtype))


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


def test_numerics_mean_far_from_zero():
    dy, x, weight, _, _ = layer(40, 500)
    x = 1e4 + x
    puzzle.check(dy, x, weight, *statistics(x))


def test_numerics_constant_rows():
    dy, _, weight, _, _ = layer(3, 500)
    x = tensor([[3.0], [100.0], [0.0]]).expand(3, 500)
    puzzle.check(dy, x, weight, *statistics(x))


@cases(few_groups=(100, 300), many_groups=(300, 200))
def test_numerics_same_bits_in_any_order(M, N):
    dy, x, weight, mean, rstd = layer(M, N)
    puzzle.check(dy * 1000, x, weight, mean, rstd)


def test_numerics_special_values_stay_in_their_row_and_column():
    dy, x, weight, mean, rstd = layer(50, 300)
    dy[3, 7], dy[40, 299] = float("nan"), float("inf")
    puzzle.check(dy, x, weight, mean, rstd)


def test_traffic():
    M, N = 1024, 200
    puzzle.traffic(*layer(M, N)).check(
        reads={"dy": 1, "x": 1, "result 0": 0},
        writes={"result 0": 1},
        total_writes=1.1 * M * N,
        launches=2,
        sectors={"dy": 1.1, "x": 1.1, "result 0": 1.1},
    )


def test_traffic_transposed():
    dy, x, weight, mean, rstd = layer(48, 40)
    puzzle.traffic(dy.T.contiguous().T, x.T.contiguous().T, weight, mean, rstd).check(
        reads={"dy": 1, "x": 1, "result 0": 0}, writes={"result 0": 1}, launches=2
    )


def test_traffic_of_the_longest_rows():
    puzzle.traffic(*layer(4, 2**14)).check(
        reads={"dy": 1, "x": 1, "result 0": 0}, launches=2, scratch=1
    )


@dtypes("bfloat16", "float32")
def test_compiles(dtype):
    puzzle.compiles(*layer(83, 1500, dtype))


def test_compiles_one_column():
    puzzle.compiles(*layer(200, 1))


def test_compiles_longest_rows():
    puzzle.compiles(*layer(2, 2**14))


def test_compiles_transposed():
    dy, x, weight, mean, rstd = layer(41, 300)
    puzzle.compiles(dy.T.contiguous().T, x, weight, mean, rstd)


def test_speedup():
    puzzle.race(*layer(16384, 4096, "bfloat16"), at_least=2)
