"""Results of the puzzles of chapter 16 with one step done wrong."""

import math
from pathlib import Path

import torch

from kernelgauge.core.paths import load
from kernelgauge.diagnosis.mistakes import half_precisions

attention = load(Path(__file__).with_name("attention.py"))


def attention_delta(out, dout, blocks):
    for name, cast in half_precisions():
        yield f"products are rounded to {name} before the sum", (cast(out * dout).sum(-1),)


def attention_dq(q, k, v, dout, lse, delta, scale, causal, blocks):
    given = q, k, v, dout, lse, delta, scale, causal
    for cause, dq, _, _ in attention.backward(*given, blocks=blocks):
        yield cause, (dq,)


def attention_dkdv(q, k, v, dout, lse, delta, scale, causal, blocks):
    given = q, k, v, dout, lse, delta, scale, causal
    for cause, _, dk, dv in attention.backward(*given, blocks=blocks):
        yield cause, (dk, dv)


def differentiable_attention(q, k, v, scale, causal, blocks, dout=None):
    for cause, out, _ in attention.forward(q, k, v, scale, causal, blocks=blocks):
        yield cause, (out, None, None, None)
    if dout is None:
        return
    mask = attention.seen(q, k, causal, None)()
    x = q @ attention.served(k, q).mT * attention.effective(scale, q)
    x = x.masked_fill(~mask, float("-inf"))
    delta = ((x.softmax(-1) @ attention.served(v, q)) * dout).sum(-1)
    lse = x.logsumexp(-1)
    for cause, wrong_lse, wrong_delta in (
        ("lse is in base 2, but the backward pass takes exp", lse / math.log(2), delta),
        ("the largest score is missing in lse", lse - x.amax(-1), delta),
        ("delta is summed from q * dout instead of out * dout", lse, (q * dout).sum(-1)),
    ):
        given = q, k, v, dout, wrong_lse, wrong_delta, attention.effective(scale, q), mask
        yield from _by_kernel(cause, attention.of_heads(*given, torch.arange(q.shape[1])))
    given = q, k, v, dout, lse, delta, scale, causal
    for cause, *gradients in attention.backward(*given, blocks=blocks):
        yield from _by_kernel(cause, gradients)


def _by_kernel(cause, gradients):
    """Yield wrong gradients: one kernel computes dq, another dk and dv."""
    yield cause, (None, *gradients)
    yield cause, (None, gradients[0], None, None)
    yield cause, (None, None, *gradients[1:])
