"""Results of the puzzles of chapter 04 with one step done wrong."""

import math

import torch

from judge.diagnosis.mistakes import half_precisions


def _sums(x, blocks):
    """Yield (cause, a wrong sum of exp(x - largest of the row) for each row, (M, 1))."""
    N, largest = x.shape[1], x.amax(1, keepdim=True)
    shifted = torch.exp(x - largest)
    for block in blocks:
        if block < N:
            yield "the sum covers the first block only", shifted[:, :block].sum(1, True)
            whole = shifted[:, : N // block * block].sum(1, True)
            yield "the sum leaves out the last block", whole
            running = torch.cat([part.amax(1, True) for part in x.split(block, 1)], 1)
            running = running.cummax(1).values.repeat_interleave(block, 1)[:, :N]
            kept = torch.exp(x - running.where(running > -math.inf, 0.0)).sum(1, True)
            yield "the sum is not rescaled when a later block has a larger maximum", kept
    yield "the sum leaves out the last element", shifted[:, :-1].sum(1, True)


def softmax(x, blocks):
    shifted = torch.exp(x - x.amax(1, keepdim=True))
    for cause, total in _sums(x, blocks):
        yield cause, (shifted / total,)
    yield "the sum is along the wrong axis", (shifted / shifted.sum(0),)
    yield "the maximum is along the wrong axis", (torch.exp(x - x.amax(0)) / shifted.sum(1, True),)


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
    losses = [
        ("the largest logit is not added back to the logarithm", total - largest - at_target),
        ("the logit of the target is not subtracted", total),
        ("the logit of the target is added instead of subtracted", total + at_target),
    ]
    for name, cast in half_precisions():
        cause = f"the log-sum-exp is rounded to {name} before a logit is subtracted"
        losses.append((cause, cast(total) - at_target))
    for cause, wrong in _sums(logits, blocks):
        losses.append((cause, largest + wrong[:, 0].log() - at_target))
    for cause, loss in losses:
        yield cause, (torch.where(used, loss, 0.0),)
