"""Results of the puzzles of chapter 10 with one step done wrong."""

import torch
from torch.nn import functional

from judge.diagnosis.mistakes import half_precisions


def causal_conv1d(x, weight, bias, activation, blocks):
    D, W = weight.shape
    L = x.shape[2]
    activate = functional.silu if activation == "silu" else torch.clone

    def filtered(padded, weight=weight):
        """The sums of the L windows that begin with the first of padded (B, D, L + W - 1)."""
        return functional.conv1d(padded, weight[:, None], groups=D)

    def out(sums):
        return (activate(sums + bias[:, None]),)

    padded = functional.pad(x, (W - 1, 0))
    sums = filtered(padded)
    cause = "the filter is turned around: its last tap must meet the newest element"
    yield cause, out(filtered(padded, weight.flip(1)))
    rows = functional.pad(x.flatten(), (W - 1, 0))
    cause = (
        "the first elements of a row see the end of the row before: mask by the time, not by the "
        "address"
    )
    yield cause, out(filtered(rows.unfold(0, L + W - 1, L).reshape(*x.shape[:2], L + W - 1)))
    for ahead in range(1, W):
        cause = f"the window is late by {ahead}: it sees elements that come after its own"
        yield cause, out(filtered(functional.pad(x, (W - 1 - ahead, ahead))))
    cause = "the window is early by 1: it ends before its own element"
    yield cause, out(filtered(functional.pad(x, (W, 0))[..., :-1]))
    for tap, which in ((0, "first"), (W - 1, "last")):
        kept = weight.clone()
        kept[:, tap] = 0
        yield f"the {which} tap of the filter is left out", out(filtered(padded, kept))
    yield "the bias is added for each tap", (activate(sums + W * bias[:, None]),)
    yield "the bias is added for each tap", (activate(sums + (W + 1) * bias[:, None]),)
    for name, cast in half_precisions():
        total = torch.zeros_like(x)
        for tap in range(W):
            total = total + cast(weight[:, tap, None] * padded[..., tap : tap + L])
        yield f"products are rounded to {name} before they are added", out(total)
        cause = f"the sum is rounded to {name} before the bias is added"
        yield cause, (activate(cast(sums) + bias[:, None]),)
        if activation:
            cause = f"the sum is rounded to {name} before silu"
            yield cause, (activate(cast(sums + bias[:, None])),)
    if activation:
        wide = sums + bias[:, None]
        yield "the bias is added after silu instead of before", (activate(sums) + bias[:, None],)
        yield "the activation is left out", (wide,)
        yield "the sigmoid is not multiplied by its argument", (torch.sigmoid(wide),)
