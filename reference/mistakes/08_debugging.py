"""Results of the puzzles of chapter 08 with one step done wrong."""

import math

import torch

from kernelgauge.diagnosis.mistakes import half_precisions, named
from kernelgauge.words.fault import note


def _entropy(p, inside):
    """Return minus the sum of p times the logarithm of `inside`; a term of p = 0 is 0."""
    return -torch.special.xlogy(p, inside).sum(1)


def softmax_entropy(x, blocks):
    p = torch.softmax(x, 1)
    right = _entropy(p, p)
    yield "a logarithm to base 2 is taken instead of the natural one", (right / math.log(2),)
    for small in (1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5):
        cause = named(
            "{eps:g} is added inside the logarithm: small probabilities are all of the sum",
            eps=small,
        )
        yield cause, (_entropy(p, p + small),)
    for bound in (20.0, 50.0, 80.0, 88.0, 100.0):
        q = torch.softmax(x.clamp(-bound, bound), 1)
        yield (
            named(
                "the logits are clipped to +-{bound:g}, which changes their distances", bound=bound
            ),
            (_entropy(q, q),),
        )
    cause = "the NaN of 0 * log(0) is replaced in the result, and with it the whole row"
    yield cause, (right.where(~(p == 0).any(1), 0.0),)
    yield "the sum of p * log(p) is not negated", (-right,)


def ragged_mean(x, lengths, blocks):
    T = x.shape[1]
    inside = torch.arange(T) < lengths[:, None]
    total = torch.where(inside, x, 0.0).sum(1)
    yield "the sum is divided by T instead of the row's length", (total / T,)
    for block in blocks:
        whole = torch.arange(T) < (lengths // block * block)[:, None]
        cause = named(
            "the last, partial block of each length (blocks of {block}) is left out", block=block
        )
        yield cause, (torch.where(whole, x, 0.0).sum(1) / lengths,)
        cut = torch.arange(T) < T // block * block
        cause = named(
            "the last, partial block of the width (blocks of {block}) is left out", block=block
        )
        yield cause, (torch.where(inside & cut, x, 0.0).sum(1) / lengths,)


def last_tokens(x, lengths, blocks):
    B, S, _ = x.shape
    rows, last = torch.arange(B), lengths.long() - 1
    yield "the last token of the whole row is taken, whatever its length", (x[:, S - 1],)
    yield "the first token is taken, not the last one", (x[:, 0],)
    yield "the token after the last one is taken", (x[rows, (last + 1).clamp(max=S - 1)],)
    yield "the length of the first sequence is taken for all", (x[rows, last[0]],)


def l1_norms(x, blocks):
    size = x.abs()
    yield "the numbers are added, not their absolute values", (x.sum(1),)
    yield "the squares are added, not the absolute values", (x.square().sum(1),)
    yield "the absolute value is taken of the sum, not of each number", (x.sum(1).abs(),)
    for block in blocks:
        if not 1 < block < x.shape[1]:
            continue
        first = size[:, :block].sum(1)
        yield "the first block is counted twice", (size.sum(1) + first,)
        yield "the first block is left out", (size.sum(1) - first,)
        for name, cast in half_precisions():
            lanes = 0.0
            for part in torch.nn.functional.pad(size, (0, -size.shape[1] % block)).split(block, 1):
                lanes = cast(lanes + part)
            yield note("sum-in-few-bits", dtype=name), (lanes.sum(1),)


def running_sum(x, blocks):
    N, scan = len(x), x.cumsum(0)
    yield "the running sum leaves out the element itself: an exclusive scan", (scan - x,)
    for block in blocks:
        if not 1 < block < N:
            continue
        within = torch.nn.functional.pad(x, (0, -N % block)).unflatten(0, (-1, block)).cumsum(1)
        sums = within[:, -1:]
        last = sums.roll(1, 0)
        last[0] = 0.0
        cause = "the carry is that of the previous block instead of all before it"
        yield cause, ((within + last).flatten()[:N],)
        cause = "the carry already includes the block's own sum"
        yield cause, ((within + sums.cumsum(0)).flatten()[:N],)
        for many in blocks:
            if not 1 < many < len(sums):
                continue
            parts = torch.nn.functional.pad(sums[:, 0], (0, -len(sums) % many))
            alone = parts.unflatten(0, (-1, many)).cumsum(1).flatten()[: len(sums), None].roll(1, 0)
            alone[0] = 0.0
            cause = named(
                "the sums of blocks are added up anew after every {many} of them", many=many
            )
            yield cause, ((within + alone).flatten()[:N],)


def momentum_step(param, grad, velocity, lr, momentum, blocks):
    moved = momentum * velocity + grad
    wrong = {
        "the old velocity is taken for the step": (param - lr * velocity, moved),
        "the velocity is added to the parameter": (param + lr * moved, moved),
        "the gradient is taken for the step, not the velocity": (param - lr * grad, moved),
        "the step looks ahead, as Nesterov's does": (param - lr * (grad + momentum * moved), moved),
    }
    damped = momentum * velocity + (1 - momentum) * grad
    wrong["the gradient is multiplied by 1 - momentum"] = (param - lr * damped, damped)
    yield from wrong.items()


def token_mean(x, blocks):
    S, total = x.shape[1], x.sum(1)
    yield "the sum is not divided", (total,)
    yield "the mean is over the elements, not over the tokens", (x.mean(2),)
    for block in blocks:
        cause = named(
            "the sum is divided by {block}, the block, instead of the tokens", block=block
        )
        yield cause, (total / block,)
        if 1 < block < S:
            whole = x[:, : S // block * block].sum(1) / S
            cause = named("the last, partial step of {block} tokens is left out", block=block)
            yield cause, (whole,)


def log_softmax(x, blocks):
    shifted = x - x.amax(1, keepdim=True)
    total = torch.exp(shifted).sum(1, keepdim=True)
    cause = "a logarithm to base 2 is taken instead of the natural one"
    yield cause, (shifted - torch.log2(total),)
    yield "the sum is subtracted, not its logarithm", (shifted - total,)
    yield "the logarithm of the sum is not subtracted", (shifted,)
    yield "the logarithm is not taken: this is the softmax", (torch.exp(shifted) / total,)
    for block in blocks:
        if 1 < block < x.shape[1]:
            apart = torch.cat([part.log_softmax(1) for part in x.split(block, 1)], 1)
            cause = named("each piece of {block} columns is normalized by itself", block=block)
            yield cause, (apart,)
