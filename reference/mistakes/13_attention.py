"""Results of the puzzles of chapter 13 with one step done wrong."""

from pathlib import Path

import torch

from kernelgauge.core.paths import load

attention = load(Path(__file__).with_name("attention.py"))


def attention_scores(q, k, scale, blocks):
    x = q @ attention.served(k, q).mT * attention.effective(scale, q)
    largest = x.amax(-1, True)
    right = torch.exp(x - largest)
    total = right.sum(-1, True)
    unscaled = q @ attention.served(k, q).mT
    cause = "the scores are scaled in the first pass alone"
    yield cause, (torch.exp(unscaled - largest) / total,)
    shifted = torch.exp(unscaled - unscaled.amax(-1, True)).sum(-1, True)
    cause = "the scores are scaled in the second pass alone"
    yield cause, (torch.exp(x - unscaled.amax(-1, True)) / shifted,)
    if k.shape[1] not in (1, q.shape[1]):
        dealt = q @ attention.dealt(k, q).mT * attention.effective(scale, q)
        yield attention.WRONG_HEAD.format("keys"), (torch.softmax(dealt, -1),)
    yield "the result is not divided by the sum", (right,)
    for tile in blocks:
        if past := -k.shape[2] % tile:
            for shift in (largest, largest.clamp(min=0)):
                counted = torch.exp(x - shift).sum(-1, True) + past * torch.exp(-shift)
                yield attention.PADDED_SCORE_0, (torch.exp(x - shift) / counted,)
        if tile < k.shape[2]:
            total = torch.exp(x - attention.running(x, tile)).sum(-1, True)
            yield attention.NOT_RESCALED.format("the sum is"), (right / total,)
            whole = right[..., : k.shape[2] // tile * tile].sum(-1, True)
            yield "the sum leaves out the last tile of keys", (right / whole,)


def flash_attention(q, k, v, scale, blocks):
    for cause, out, lse in attention.forward(q, k, v, scale, blocks=blocks):
        yield cause, (out, lse)


def causal_attention(q, k, v, scale, blocks):
    yield from grouped_query_attention(q, k, v, scale, True, blocks)


def grouped_query_attention(q, k, v, scale, causal, blocks):
    for cause, out, _ in attention.forward(q, k, v, scale, causal, blocks=blocks):
        yield cause, (out,)


def sliding_window_attention(q, k, v, window, scale, blocks):
    for cause, out, _ in attention.forward(q, k, v, scale, window=window, blocks=blocks):
        yield cause, (out,)
