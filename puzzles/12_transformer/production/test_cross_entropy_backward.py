"""Tests of 12.5, the backward pass of cross entropy, in production."""

import torch

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    INDICES,
    cases,
    dtypes,
    far_apart,
    integers,
    offset,
    randn,
    strided,
    tensor,
)
from course.values import special_values

puzzle = challenge("cross_entropy_backward", in_place=("logits",))


def rows(M, V, dtype="float32"):
    logits, targets = randn(M, V, dtype=dtype), integers(M, low=0, high=V, dtype="int64")
    targets[2::3] = -100
    return randn(M), logits, targets, torch.logsumexp(logits.float(), 1)


# Bad input: the error that the spec names, or the right gradient.


def test_shapes_logits_is_not_of_the_spec():
    dloss, logits, targets, lse = rows(4, 5)
    puzzle.check_or_raises(dloss, logits[0], targets, lse, names="logits", answer=False)
    puzzle.check_or_raises(dloss, logits[None], targets, lse, names="logits", answer=False)
    puzzle.check_or_raises(dloss, logits.double(), targets, lse, names="logits")
    puzzle.check_or_raises(dloss, logits.int(), targets, lse, names="logits", answer=False)


@cases(dloss=0, targets=2, lse=3)
def test_shapes_a_vector_does_not_fit(which):
    name = ("dloss", "logits", "targets", "lse")[which]
    inputs = rows(4, 5)
    for wrong in (inputs[which][1:], inputs[which][:1], inputs[which][None]):
        given = [wrong if n == which else inputs[n] for n in range(4)]
        puzzle.check_or_raises(*given, names=name, answer=False)


def test_shapes_vectors_of_another_dtype():
    dloss, logits, targets, lse = rows(4, 5)
    puzzle.check_or_raises(dloss.double(), logits, targets, lse, names="dloss")
    puzzle.check_or_raises(dloss, logits, targets.float(), lse, names="targets")
    puzzle.check_or_raises(dloss, logits, targets, lse.half(), names="lse", answer=False)


# Any size and layout.


def test_masks_every_stride():
    dloss, logits, targets, lse = rows(7, 130)
    puzzle.check(strided(dloss, 2), strided(logits, 3, 2), strided(targets, 4), strided(lse, 5))


def test_masks_transposed():
    dloss, logits, targets, lse = rows(7, 130)
    puzzle.check(dloss, logits.T.contiguous().T, targets, lse)


def test_masks_unaligned_and_expanded():
    dloss, logits, targets, lse = rows(4, 256)
    puzzle.check(dloss, offset(logits), targets[:1].expand(4), lse[:1].expand(4))


@cases(dloss=0, targets=2, lse=3)
def test_masks_vectors_beyond_32_bits(which):
    inputs = list(rows(3, 4))
    inputs[which] = far_apart(inputs[which])
    puzzle.check(*inputs)


def test_masks_logits_beyond_32_bits():
    dloss, logits, targets, lse = rows(3, 1)
    puzzle.check(dloss, far_apart(logits[:, 0].half())[:, None], targets, lse)
    dloss, logits, targets, lse = rows(1, 3)
    puzzle.check(dloss, far_apart(logits[0].half())[None, :], targets, lse)


def test_masks_more_rows_than_axis_1_takes():
    dloss, logits, targets, lse = rows(70_000, 2, "float16")
    puzzle.check_grid(dloss, logits, targets, lse)


def test_masks_long_rows():
    puzzle.check(*rows(2, 2**17 + 1))


def test_masks_limits():
    each = {"dloss logits": FLOATS, "logits": FLOATS, "targets": INDICES}
    puzzle.limits(lambda M, V: rows(M, V), dtypes=each, M=2**17, V=2**18)


# Any dtype and value.


@dtypes("float16", "bfloat16")
def test_numerics_dloss_of_the_dtype_of_logits(dtype):
    dloss, logits, targets, lse = rows(16, 300, dtype)
    puzzle.check(dloss.to(logits.dtype), logits, targets, lse)


def test_numerics_ignored_rows_hold_anything():
    dloss, logits, targets, lse = rows(12, 60)
    inf, nan = float("inf"), float("nan")
    logits[2, 5], logits[5, 7], lse[8], dloss[11] = nan, inf, nan, inf
    puzzle.check(dloss, logits, targets, lse)


def test_numerics_logits_of_minus_infinity():
    dloss, logits, targets, _ = rows(6, 60)
    logits[0, 1:], logits[1] = float("-inf"), float("-inf")
    targets[0], targets[1] = 0, 3
    puzzle.check(dloss, logits, targets, torch.logsumexp(logits, 1))


def test_numerics_nan_stays_in_its_row():
    dloss, logits, targets, lse = rows(6, 60)
    logits[3, 4], lse[4] = float("nan"), float("nan")
    puzzle.check(dloss, logits, targets, lse)


def test_numerics_large_logits():
    dloss, logits, targets, _ = rows(6, 60)
    logits *= 1000
    puzzle.check(dloss, logits, targets, torch.logsumexp(logits, 1))


test_numerics_each_special_value = special_values(
    puzzle, lambda: rows(6, 300, "float16"), "dloss logits lse"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_long_rows():
    puzzle.traffic(*rows(1, 40_000, "float16")).check(
        reads={"logits": 1}, writes={"logits": 1}, launches=1, scratch=0
    )


def test_compiles_every_stride():
    _, logits, targets, lse = rows(7, 130, "float16")
    puzzle.compiles(tensor([1.0]).expand(7), logits.T.contiguous().T, targets.int(), lse)


def test_speedup():
    M, V = 8192, 32768
    puzzle.race(
        *rows(M, V, "bfloat16"), at_least=0.9, bytes_moved=2 * M * V * 2, baseline="solution"
    )
