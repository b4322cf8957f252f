"""What the puzzles of chapter 04 give with one step done wrong."""

import math

import torch

from judge.core.dtypes import dtype_name

RESCALE = "a sum not rescaled where a later block brings a larger maximum"


def _sums(x, blocks):
    """(what is wrong with it, a wrong sum of exp(x - largest of the row) of each row, (M, 1))."""
    N, largest = x.shape[1], x.amax(1, keepdim=True)
    shifted = torch.exp(x - largest)
    for block in blocks:
        if block < N:
            yield "a sum of the first block only", shifted[:, :block].sum(1, keepdim=True)
            whole = shifted[:, : N // block * block].sum(1, keepdim=True)
            yield "a sum that leaves out the last block", whole
            running = torch.cat([part.amax(1, True) for part in x.split(block, 1)], 1)
            running = running.cummax(1).values.repeat_interleave(block, 1)[:, :N]
            kept = torch.exp(x - running.where(running > -math.inf, 0.0))
            yield RESCALE, kept.sum(1, keepdim=True)
    yield "a sum that leaves out the last element", shifted[:, :-1].sum(1, keepdim=True)


def softmax(x, blocks):
    shifted = torch.exp(x - x.amax(1, keepdim=True))
    for cause, total in _sums(x, blocks):
        yield cause, (shifted / total,)
    yield "a sum along the wrong axis", (shifted / shifted.sum(0),)
    yield "a maximum along the wrong axis", (torch.exp(x - x.amax(0)) / shifted.sum(1, True),)


def online_softmax(x, blocks):
    yield from softmax(x, blocks)


def column_softmax(x, blocks):
    for cause, (result,) in softmax(x.T, blocks):
        yield cause, (result.T,)


def cross_entropy(logits, targets, blocks):
    used = targets != -100
    columns = torch.where(used, targets, 0).long()[:, None]
    largest, total = logits.amax(1), logits.logsumexp(1)
    at_target = logits.gather(1, columns)[:, 0]
    for cause, loss in (
        ("the largest logit not added back to the logarithm", total - largest - at_target),
        ("the logit of the target not subtracted", total),
        ("the logit of the target added, not subtracted", total + at_target),
        *(
            (
                f"a log-sum-exp rounded to {dtype_name(dtype)} before a logit is subtracted",
                total.to(dtype).double() - at_target,
            )
            for dtype in (torch.float16, torch.bfloat16)
        ),
        *(
            (cause, largest + wrong[:, 0].log() - at_target)
            for cause, wrong in _sums(logits, blocks)
        ),
    ):
        yield cause, (torch.where(used, loss, 0.0),)
