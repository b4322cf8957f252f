"""Tests of 12.6, linear layer and cross entropy."""

import math

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn

RULES = {"results": ("loss", "dx", "dweight"), "deterministic": True, "input_precision": "tf32"}
puzzle = challenge("fused_linear_cross_entropy", rounded=True, **RULES)
# Rounding the probabilities would excuse what is lost where the one is subtracted.
unexcused = challenge("fused_linear_cross_entropy", **RULES)


def layer(M, V, D, dtype="float32"):
    """A layer of which every third row counts for nothing."""
    targets = integers(M, low=0, high=V, dtype="int64")
    targets[2::3] = -100
    return randn(M, D, dtype=dtype), randn(V, D, dtype=dtype) / math.sqrt(D), targets


@cases(one_row=(1, 20, 16), one_class=(5, 1, 16), one_feature=(5, 20, 1))
def test_shapes(M, V, D):
    puzzle.check(*layer(M, V, D))


@cases(ragged_everywhere=(67, 35, 21), last_chunk_is_smaller=(70, 100, 32))
def test_masks(M, V, D):
    puzzle.check(*layer(M, V, D))


def test_masks_targets_in_one_chunk_only():
    # Each chunk has another number of rows that count, and some have none.
    x, weight, targets = layer(80, 64, 16)
    targets[20:] = -100
    puzzle.check(x, weight, targets.int())


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*layer(40, 150, 32, dtype))


def test_numerics_dweight_in_float32():
    # The first rows make dweight[:, 0] large, and what the others add to it is then rounded away.
    x, weight, targets = layer(256, 256, 16, "bfloat16")
    x[:, 0], weight[:, 0], targets[:] = 1, 0, 0
    x[:16, 0] = 500
    puzzle.check(x, weight, targets)


@dtypes("float16", "bfloat16")
def test_numerics_one_before_rounding(dtype):
    # All targets are nearly certain: only p - 1 is left, which p in 16 bits does not show.
    x, weight, targets = layer(16, 40, 16, dtype)
    targets[:] = integers(16, low=0, high=16, dtype="int64")
    weight[:] = 0
    weight.fill_diagonal_(1)
    x[:] = weight[targets] * 9
    unexcused.check(x, weight, targets)


def test_numerics_no_target_counts():
    x, weight, targets = layer(20, 30, 16)
    puzzle.check(x, weight, targets * 0 - 100)


def test_traffic():
    M, V, D = 256, 256, 128
    puzzle.traffic(*layer(M, V, D, "float16")).check(
        dot_macs=4.5 * M * V * D, largest_write=max(M, V) * max(D, 16), scratch=math.inf
    )


def test_traffic_memory_beside_the_results():
    M, V, D = 128, 128, 16
    puzzle.traffic(*layer(M, V, D, "float16")).check(allocated=28 * 1024, scratch=math.inf)


def test_compiles():
    puzzle.compiles(*layer(40, 150, 32, "bfloat16"))


def test_speedup():
    M, V, D = 8192, 32768, 2048
    puzzle.race(
        *layer(M, V, D, "bfloat16"), at_least=0.5, operations=(3 * 2 * M * V * D, "bfloat16")
    )
