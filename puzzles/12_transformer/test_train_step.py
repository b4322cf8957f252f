"""Tests of 12.7, one training step of a transformer block."""

import math

from course.challenge import challenge
from course.inputs import cases, integers, randn, tensor, uniform

puzzle = challenge("train_step", in_place=("params", "exp_avg", "exp_avg_sq", "loss"), rounded=True)

# lr, beta1, beta2, eps, weight_decay. The moments hardly change in the first, so that the loss is
# all that counts; in the second exp_avg is the gradient.
ALMOST_1 = 1 - 2**-24
ONLY_LOSS = 0.0, ALMOST_1, ALMOST_1, 1e-8, 0.0
ONLY_GRADIENT = 0.0, 0.0, 0.0, 1e-8, 0.0
USUAL = 1e-2, 0.9, 0.99, 1e-6, 0.1


def block(B, S, heads, E, F, V, dtype="float16", first=False):
    """x, targets, tables, params, moments and loss, then heads and hidden."""
    D = heads * E
    R = 2 + 4 * D + 3 * F + V
    params = randn(R, D, dtype=dtype) / math.sqrt(D)
    params[[0, 1 + 4 * D]] = 1 + randn(2, D, dtype=dtype) / 4
    targets = integers(B, S, low=0, high=V, dtype="int64")
    targets[:, 1::5] = -100
    angles = uniform(S, E // 2, low=-3.1, high=3.1)
    moments = randn(R, D) / 100, uniform(R, D, low=1e-5, high=1e-4)
    if first:
        moments = tuple(moment * 0 for moment in moments)
    x = randn(B, S, D, dtype=dtype)
    return x, targets, angles.cos(), angles.sin(), params, *moments, tensor([0.0]), heads, F


SMALL, RAGGED = (1, 8, 2, 16, 16, 16), (2, 21, 3, 16, 40, 70)


@cases(forward=ONLY_LOSS, gradient=ONLY_GRADIENT, step=USUAL)
def test_shapes(lr, beta1, beta2, eps, weight_decay):
    puzzle.check(*block(*SMALL), 3, lr, beta1, beta2, eps, weight_decay)


@cases(ragged_everywhere=RAGGED, several_tiles=(1, 130, 1, 32, 20, 30))
def test_masks(B, S, heads, E, F, V):
    puzzle.check(*block(B, S, heads, E, F, V), 3, *ONLY_GRADIENT)


@cases(float16="float16", bfloat16="bfloat16")
def test_numerics(dtype):
    puzzle.check(*block(*RAGGED, dtype), 3, *USUAL)


def test_numerics_first_step():
    # With a small eps it would be the sign of the gradient, of which rounding leaves little.
    puzzle.check(*block(*SMALL, first=True), 1, 1e-2, 0.9, 0.99, 1e-2, 0.1)


def test_traffic():
    once = dict.fromkeys(("params", "exp_avg", "exp_avg_sq", "loss"), 1)
    puzzle.traffic(*block(*SMALL), 3, *USUAL).check(writes=once, scratch=math.inf)


def test_compiles():
    # Some twenty kernels: for one GPU and one dtype it takes seconds.
    puzzle.compiles(*block(1, 64, 2, 32, 64, 64, "bfloat16"), 3, *USUAL, targets=("sm_90",))


def test_speedup():
    B, S, heads, E, F, V = 4, 2048, 16, 128, 5632, 32768
    inputs = block(B, S, heads, E, F, V, "bfloat16")
    # Each weight takes part in three products.
    work = 3 * 2 * B * S * (4 * heads * E + 3 * F + V) * heads * E
    puzzle.race(*inputs, 3, *USUAL, at_least=0.4, operations=(work, "bfloat16"))
