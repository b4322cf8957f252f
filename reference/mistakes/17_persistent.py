"""Results of the puzzles of chapter 17 with one step done wrong."""

from pathlib import Path

import torch

from judge.core.paths import load

attention = load(Path(__file__).with_name("attention.py"))


def persistent_attention(q, k, v, scale, causal, blocks):
    for cause, out, _ in attention.forward(q, k, v, scale, causal, blocks=blocks):
        yield cause, (out,)


def persistent_softmax(x, blocks):
    shifted = torch.exp(x - x.amax(1, keepdim=True))
    yield "the sum is along the wrong axis", (shifted / shifted.sum(0),)
