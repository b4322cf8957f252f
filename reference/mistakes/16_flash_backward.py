"""Results of the puzzles of chapter 16 with one step done wrong."""

from pathlib import Path

from judge.core.paths import load
from judge.diagnosis.mistakes import half_precisions

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
    given = q, k, v, dout, x.logsumexp(-1), delta, scale, causal
    for cause, *gradients in attention.backward(*given, blocks=blocks):
        yield cause, (None, *gradients)
        # One kernel computes dq, another dk and dv.
        yield cause, (None, gradients[0], None, None)
        yield cause, (None, None, *gradients[1:])
