"""Results of the puzzles of chapter 04 with one step done wrong."""

import math

import torch

from kernelgauge.diagnosis.mistakes import half_precisions
from kernelgauge.words.fault import note

# Rows or columns that are padded to whole blocks hold at most so many elements.
MAX_PADDED = 2**22
NOT_RESCALED = "the sum is not rescaled when a later block has a larger maximum"


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
            yield NOT_RESCALED, kept
            upwards = torch.exp(x + largest - 2 * running.where(running > -math.inf, 0.0))
            cause = "the sum is rescaled by exp(new - old maximum) instead of exp(old - new)"
            yield cause, upwards.sum(1, True)
            yield NOT_RESCALED, _unscaled_lanes(x, block, largest)
            yield "the terms of a block are rescaled with the sum before them", _twice(x, block)
            own = torch.cat([part.amax(1, True).expand_as(part) for part in x.split(block, 1)], 1)
            apart = torch.exp(x - own.where(own > -math.inf, 0.0)).sum(1, True)
            yield "the sums of blocks that subtract different maxima are added as they are", apart
    yield "the sum leaves out the last element", shifted[:, :-1].sum(1, True)


def _twice(x, block):
    """Return a running sum in which the terms of each block but the first are rescaled, too."""
    top, total = None, 0.0
    for part in x.split(block, 1):
        new = part.amax(1, True) if top is None else torch.maximum(top, part.amax(1, True))
        base = new.where(new > -math.inf, 0.0)
        factor = 1.0 if top is None else torch.exp(top - base)
        top, total = new, (total + torch.exp(part - base).sum(1, True)) * factor
    return total


def _unscaled_lanes(x, block, largest):
    """Return the sums of lanes that do not rescale their own, and are brought together rightly."""
    lanes = torch.nn.functional.pad(x, (0, -x.shape[1] % block), value=-math.inf)
    lanes = lanes.unflatten(1, (-1, block))
    running = lanes.cummax(1).values
    own = torch.exp(lanes - running.where(running > -math.inf, 0.0)).sum(1)
    return (own * torch.exp(running[:, -1] - largest)).sum(1, True)


def softmax(x, blocks):
    shifted = torch.exp(x - x.amax(1, keepdim=True))
    for cause, total in _sums(x, blocks):
        yield cause, (shifted / total,)
    yield "the sum is along the wrong axis", (shifted / shifted.sum(0),)
    yield "the maximum is along the wrong axis", (torch.exp(x - x.amax(0)) / shifted.sum(1, True),)
    yield "the exponentials are not divided by their sum", (shifted,)
    for block in blocks:
        if block < x.shape[1]:
            last = x[:, (x.shape[1] - 1) // block * block :].amax(1, True)
            cause = "the maximum that is subtracted at the end is that of the last block only"
            yield cause, (torch.exp(x - last) / shifted.sum(1, True),)


def online_softmax(x, blocks):
    yield from softmax(x, blocks)
    largest = x.amax(1, keepdim=True)
    for block in blocks:
        lanes = torch.nn.functional.pad(x, (0, -x.shape[1] % block), value=-math.inf)
        lanes = lanes.unflatten(1, (-1, block))
        own = lanes.amax(1, True)
        total = torch.exp(lanes - own.where(own > -math.inf, 0.0)).sum((1, 2))[:, None]
        cause = "the sums of lanes are added up without their maxima, which differ"
        yield cause, (torch.exp(x - largest) / total,)


def column_softmax(x, blocks):
    for cause, (result,) in softmax(x.T, blocks):
        yield cause, (result.T,)
    M, N = x.shape
    for block in blocks:
        tall = torch.nn.functional.pad(x, (0, 0, 0, -M % block))
        yield note("masked-lanes-count", name="x", value=0.0), (tall.softmax(0)[:M],)
        if M * (N + block) > MAX_PADDED:
            continue
        wide = torch.nn.functional.pad(x, (0, -N % block), value=-math.inf)
        tiles = torch.exp(wide - wide.amax(0)).unflatten(1, (-1, block))
        alone = (tiles / tiles.sum(2, True)).flatten(1)[:, :N]
        yield "the sum is along the wrong axis of the tile", (alone,)
        shifted = torch.nn.functional.pad(torch.exp(x - x.amax(0)), (0, -N % block))
        tiles = shifted.unflatten(1, (-1, block))
        among = (tiles / tiles.sum((0, 2), True)).flatten(1)[:, :N]
        yield "the sum is that of the whole tile, not of each column", (among,)


def cross_entropy(logits, targets, blocks):
    used = targets != -100
    columns = torch.where(used, targets, 0).long()[:, None]
    largest, total = logits.amax(1), logits.logsumexp(1)
    at_target = logits.gather(1, columns)[:, 0]
    losses = [
        ("the largest logit is not added back to the logarithm", total - largest - at_target),
        ("the logit of the target is not subtracted", total),
        ("the logit of the target is added instead of subtracted", total + at_target),
        ("the logit of the target is that of row 0", total - logits[0][columns[:, 0]]),
        (
            "a logarithm to base 2 is taken instead of the natural one",
            largest + (total - largest) / math.log(2) - at_target,
        ),
    ]
    for name, cast in half_precisions():
        cause = f"the log-sum-exp is rounded to {name} before a logit is subtracted"
        losses.append((cause, cast(total) - at_target))
    for cause, wrong in _sums(logits, blocks):
        losses.append((cause, largest + wrong[:, 0].log() - at_target))
    for of_ignored in (total, total - logits[:, 0]):
        loss = torch.where(used, total - at_target, of_ignored)
        yield "rows whose target is -100 are not ignored", (loss,)
    for cause, loss in losses:
        yield cause, (torch.where(used, loss, 0.0),)
