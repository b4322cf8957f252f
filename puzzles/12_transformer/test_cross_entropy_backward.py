"""Tests of 12.5, the backward pass of cross entropy."""

import torch

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, tensor

puzzle = challenge("cross_entropy_backward", in_place=("logits",))


def rows(M, V, dtype="float32", mean=False):
    """Some rows, of which every third counts for nothing."""
    logits, targets = randn(M, V, dtype=dtype), integers(M, low=0, high=V, dtype="int64")
    targets[2::3] = -100
    dloss = tensor([1 / M]).expand(M) if mean else randn(M)
    return dloss, logits, targets, torch.logsumexp(logits.float(), 1)


@cases(single_element=(1, 1), one_row=(1, 70), one_column=(4, 1), a_few=(7, 30))
def test_shapes(M, V):
    puzzle.check(*rows(M, V))


@cases(one_short_of_a_block=(3, 1023), one_past_a_block=(3, 1025), many_blocks=(2, 9001))
def test_masks(M, V):
    puzzle.check(*rows(M, V))


@dtypes("int32", "int64")
def test_masks_gradient_of_a_mean(dtype):
    dloss, logits, targets, lse = rows(7, 300, mean=True)
    puzzle.check(dloss, logits, targets.to(getattr(torch, dtype)), lse)


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*rows(16, 300, dtype))


@dtypes("float16", "bfloat16")
def test_numerics_one_before_rounding(dtype):
    # The target is nearly certain: rounded to 16 bits p is 1, and nothing is left of p - 1.
    dloss, logits, targets, _ = rows(16, 50, dtype)
    targets = targets.clamp(min=0)
    logits[torch.arange(16), targets] = 16.0
    puzzle.check(dloss, logits, targets, torch.logsumexp(logits.float(), 1))


def test_numerics_dloss_before_rounding():
    # These probabilities are no float16 any more; dloss brings them back.
    dloss, logits, targets, _ = rows(8, 64, "float16")
    logits[:, :32] -= 20
    lse = torch.logsumexp(logits.float(), 1)
    puzzle.check(dloss * 1e4, logits, targets, lse)


def test_traffic():
    puzzle.traffic(*rows(6, 3000, "float16")).check(
        reads={"logits": 1},
        writes={"logits": 1},
        launches=1,
        scratch=0,
        sectors={"logits": 1.1},
    )


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*rows(6, 3000, dtype))


def test_speedup():
    M, V = 8192, 32768
    puzzle.race(*rows(M, V, "bfloat16", mean=True), at_least=10, bytes_moved=2 * M * V * 2)
