"""What the puzzles of chapter 16 give with one step done wrong."""

from pathlib import Path

import torch

from judge.core.dtypes import dtype_name
from judge.core.paths import load

attention = load(Path(__file__).with_name("attention.py"))


def attention_delta(out, dout, blocks):
    for dtype in (torch.float16, torch.bfloat16):
        name = dtype_name(dtype)
        yield (
            f"products rounded to {name} before they are summed",
            ((out * dout).to(dtype).double().sum(-1),),
        )


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
    given = q, k, v, dout, x.logsumexp(-1), delta, scale, causal
    for cause, *gradients in attention.backward(*given, blocks=blocks):
        yield cause, (None, *gradients)
        # The kernel of dq is one, that of dk and dv another.
        yield cause, (None, gradients[0], None, None)
        yield cause, (None, None, *gradients[1:])
