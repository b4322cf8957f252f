"""Tests of 05.4, the backward pass of layer norm, in production."""

import torch

from course.challenge import challenge
from course.inputs import FLOATS, cases, far_apart, integers, offset, randn, strided, tensor
from course.values import special_values

puzzle = challenge("layer_norm_backward", results=("dx", "dweight", "dbias"), deterministic=True)


def statistics(x, eps=1e-5):
    variance, mean = torch.var_mean(x.float(), 1, correction=0)
    return mean, torch.rsqrt(variance + eps)


def layer(M, N, dtype="float32"):
    x = randn(M, N, dtype=dtype)
    return randn(M, N, dtype=dtype), x, randn(N, dtype=dtype), *statistics(x)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    dy, x, weight, mean, rstd = layer(4, 5)
    puzzle.check_or_raises(dy[0], x[0], weight, mean, rstd, names="x", answer=False)
    puzzle.check_or_raises(dy[None], x[None], weight, mean, rstd, names="x", answer=False)


def test_shapes_x_is_of_integers():
    *_, mean, rstd = layer(4, 5)
    whole = integers(4, 5, dtype="int32")
    puzzle.check_or_raises(whole, whole, whole[0], mean, rstd, names="x", answer=False)


def test_shapes_rows_are_too_long():
    puzzle.check_or_raises(*layer(1, 2**14 + 1), names="x")


def test_shapes_dy_or_weight_does_not_fit():
    dy, x, weight, mean, rstd = layer(4, 5)
    puzzle.check_or_raises(dy[1:], x, weight, mean, rstd, names="dy")
    puzzle.check_or_raises(dy.half(), x, weight, mean, rstd, names="dy")
    puzzle.check_or_raises(dy, x, weight[1:], mean, rstd, names="weight")
    puzzle.check_or_raises(dy, x, weight.half(), mean, rstd, names="weight")


def test_shapes_mean_or_rstd_does_not_fit():
    dy, x, weight, mean, rstd = layer(4, 5)
    puzzle.check_or_raises(dy, x, weight, mean[1:], rstd, names="mean")
    puzzle.check_or_raises(dy, x, weight, mean.half(), rstd, names="mean")
    puzzle.check_or_raises(dy, x, weight, mean, rstd[:, None], names="rstd", answer=False)
    puzzle.check_or_raises(dy, x, weight, mean, rstd.double(), names="rstd")


# Any size and layout.


def test_masks_longest():
    puzzle.check(*layer(2, 2**14))


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


def test_masks_limits():
    puzzle.limits(lambda M, N: layer(M, N), dtypes={"dy x weight": FLOATS}, M=2**17, N=2**14)


# Any value.


def test_numerics_mean_far_from_zero():
    dy, x, weight, _, _ = layer(40, 500)
    x = 1e4 + x
    puzzle.check(dy, x, weight, *statistics(x))


def test_numerics_constant_rows():
    dy, _, weight, _, _ = layer(3, 500)
    x = tensor([[3.0], [100.0], [0.0]]).repeat(1, 500)
    puzzle.check(dy, x, weight, *statistics(x))


def test_numerics_special_values_stay_in_their_row_and_column():
    dy, x, weight, mean, rstd = layer(50, 300)
    dy[3, 7], dy[40, 299] = float("nan"), float("inf")
    puzzle.check(dy, x, weight, mean, rstd)


# Of the largest mean and rstd: x_hat overflows float32, in which the spec computes it, and float64,
# in which the reference does, holds it.
test_numerics_each_special_value = special_values(
    puzzle,
    lambda: layer(50, 70, "float16"),
    "dy x weight mean rstd",
    apart={"mean": ("largest",), "rstd": ("largest",)},
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_transposed():
    dy, x, weight, mean, rstd = layer(48, 40)
    puzzle.traffic(dy.T.contiguous().T, x.T.contiguous().T, weight, mean, rstd).check(
        reads={"dy": 1, "x": 1, "dx": 0}, writes={"dx": 1}, launches=2
    )


def test_traffic_of_the_longest_rows():
    puzzle.traffic(*layer(4, 2**14)).check(reads={"dy": 1, "x": 1, "dx": 0}, launches=2, scratch=1)


@cases(ragged_rows=(83, 1500), one_column=(200, 1), longest_rows=(2, 2**14))
def test_compiles(M, N):
    puzzle.compiles(*layer(M, N))


def test_compiles_transposed():
    dy, x, weight, mean, rstd = layer(41, 300)
    puzzle.compiles(dy.T.contiguous().T, x, weight, mean, rstd)


def test_speedup():
    puzzle.race(*layer(16384, 4096, "bfloat16"), at_least=0.9, baseline="solution")
