"""Results of the puzzles of chapter 14 with one step done wrong."""

import math
from pathlib import Path

import torch

from judge.core.paths import load

attention = load(Path(__file__).with_name("attention.py"))


LENGTHS = {32, 64, 128, 256, 512, 1024}


def decoded(q, k, v, scale, blocks):
    """Yield (cause, out) of attention of q (B, H, 1, D)."""
    for cause, out, _ in attention.forward(q, k, v, scale, blocks=blocks):
        if out is not None:
            yield cause, out
    values = attention.served(v, q)
    x = q @ attention.served(k, q).mT * attention.effective(scale, q)
    for length in sorted({*blocks, *LENGTHS}):
        if length < x.shape[-1]:
            yield from merged(x.split(length, -1), values.split(length, -2), blocks)


def merged(scores, values, blocks):
    """Yield (cause, out) of splits whose parts are made or merged in a wrong way."""
    m = torch.stack([x.amax(-1, True) for x in scores])
    terms = [torch.exp(x - x.amax(-1, True)) for x in scores]
    sums = torch.stack([p.sum(-1, True) for p in terms])
    means = torch.stack([p @ v for p, v in zip(terms, values, strict=True)]) / sums

    def weighed(weights, parts=means):
        return (weights * parts).sum(0) / weights.sum(0)

    cause = "the parts are added without regard to their maxima"
    yield cause, weighed(sums)
    yield cause, weighed(torch.ones_like(sums))
    for factor in (math.log(2), 1 / math.log(2)):
        cause = "the parts' maxima and the logarithms of their sums are in different bases"
        yield cause, weighed(torch.exp(m + torch.log(sums) * factor - m.amax(0)))
        cause = "the parts are weighed in another base than their maxima are in"
        yield cause, weighed(torch.exp((m - m.amax(0)) * factor) * sums)
        yield cause, weighed(torch.softmax((m + torch.log(sums)) * factor, 0))
    for tile in blocks:
        if tile >= scores[0].shape[-1]:
            continue
        kept = [
            torch.exp(x - attention.running(x, tile)) @ v
            for x, v in zip(scores, values, strict=True)
        ]
        cause = attention.NOT_RESCALED.format("the accumulator is")
        yield cause, weighed(torch.exp(m - m.amax(0)) * sums, torch.stack(kept) / sums)


def flash_decoding(q, k, v, scale, blocks):
    for cause, out in decoded(q[:, :, None], k, v, scale, blocks):
        yield cause, (out[:, :, 0],)
