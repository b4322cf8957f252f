"""Results of the puzzles of chapter 03 with one step done wrong."""

from pathlib import Path

import torch

from kernelgauge.core.paths import load
from kernelgauge.diagnosis.mistakes import half_precisions, named
from kernelgauge.words.fault import note

merges = load(Path(__file__).with_name("merges.py"))

LAST_LEFT_OUT = "the last element is left out: a mask or a loop ends one element too early"
COUNTED = "masked lanes are counted: the 0 in them is far from the mean"


def parts(x, block):
    """Return x (M, N) as (M, N / block, block), with 0 past its end."""
    rest = -x.shape[1] % block
    return torch.nn.functional.pad(x, (0, rest)).unflatten(1, (-1, block))


def row_sum(x, blocks):
    yield LAST_LEFT_OUT, (x[:, :-1].sum(1),)
    for block in blocks:
        for name, cast in half_precisions():
            lanes = 0.0
            for part in parts(x, block).unbind(1):
                lanes = cast(lanes + part)
            yield note("sum-in-few-bits", dtype=name), (lanes.sum(1),)


def total_sum(x, blocks):
    x = x.flatten()
    cause = "the elements after the last whole share are left out: N // programs rounds down"
    for programs in sorted({-(-len(x) // block) for block in blocks}):
        yield cause, (x[: len(x) // programs * programs].sum(),)
    cause = "the last block of a program's share runs on into the share of the next one"
    for block in blocks:
        share = -(-len(x) // -(-len(x) // block))
        starts = range(0, len(x), share)
        yield cause, (sum(x[first : first - (-share // block) * block].sum() for first in starts),)
    yield LAST_LEFT_OUT, (x[:-1].sum(),)


def row_argmax(x, blocks):
    for block in blocks:
        if block < x.shape[1]:
            cause = "the index is counted within its block, and the block's start is not added"
            yield cause, (x.argmax(1) % block,)


def variance(x, blocks):
    N, mean = x.shape[1], x.mean(1, keepdim=True)
    squares = (x - mean).square().sum(1)
    for block in blocks:
        lost = -N % block
        yield COUNTED, ((squares + lost * mean[:, 0].square()) / (N - 1),)
        if lost:
            cause = named(
                "the squares are divided by {lanes}, the block size less 1, instead of N - 1",
                lanes=N + lost - 1,
            )
            yield cause, (squares / (N + lost - 1),)
        near = mean * N / (N + lost)
        cause = named(
            "a mean over {all} elements, the block size, instead of {N}", all=N + lost, N=N
        )
        yield cause, ((x - near).square().sum(1) / (N - 1),)


def welford(x, blocks):
    N = x.shape[1]
    for block in blocks:
        inside = parts(torch.ones_like(x), block)
        counts = inside.sum(2)
        means = parts(x, block).sum(2) / counts
        away = parts(x, block) - means[:, :, None]
        m2 = (away * inside).square().sum(2)
        cause = "the distance between the means of two blocks is left out of the squares"
        yield cause, (x.mean(1), m2.sum(1) / (N - 1))
        cause = (
            "the count is not carried from block to block, so the mean is that of the last block"
        )
        yield cause, (means[:, -1], m2.sum(1) / (N - 1))
        yield "the last block is counted as a full one", _as_full(x, block, means, m2, inside)
        mean = means[:, 0]
        for other in means.unbind(1)[1:]:
            mean = (mean + other) / 2
        yield "the means of the blocks are averaged regardless of their counts", (mean, None)
        mean, count = means[:, 0], counts[:, 0]
        for other, more in zip(means.unbind(1)[1:], counts.unbind(1)[1:], strict=True):
            mean = mean + (other - mean) * count / (count + more)
            count = count + more
        yield "the mean moves by the share of what came before, not of the block", (mean, None)
        mean, _ = merged(counts, means, m2, moved=torch.full_like(counts, block))
        yield "the mean moves by the share of a full block at a shorter one", (mean, None)
        lanes = away.square().sum(2).sum(1) - m2.sum(1)
        right = (x - x.mean(1, keepdim=True)).square().sum(1)
        yield COUNTED, (None, (right + lanes) / (N - 1))
        for name, cast in half_precisions():
            mean, total = merged(counts, means, m2, cast)
            yield f"the mean is carried in {name} instead of float32", (mean, total / (N - 1))
        mean, total = merged(counts, means, m2, last_only=True)
        cause = "the count is that of the last block only"
        yield cause, (mean, total / (N - 1))
        yield cause, (mean, None)
        for wrong in (merges.wrong_merges_of_lanes, merges.wrong_merges):
            for cause, mean, total in wrong(x, block):
                yield cause, (mean, total / (N - 1))


def _as_full(x, block, means, m2, inside):
    """Return what Welford gives if each block, also the last one, counts `block` elements."""
    means = means.clone()
    means[:, -1] *= inside[:, -1].sum(1) / block
    m2 = ((parts(x, block) - means[:, :, None]) * inside).square().sum(2)
    mean, total = merged(torch.full_like(means, block), means, m2)
    return mean, total / (x.shape[1] - 1)


def merged(counts, means, m2, cast=torch.clone, last_only=False, moved=None):
    """Return the mean and m2 of all blocks, merged one by one.

    cast: rounds the mean after each step; last_only: count only the last of the blocks so far;
    moved: the counts by whose share the mean moves, if not those of the blocks
    """
    moved = counts if moved is None else moved
    count = mean = total = torch.zeros_like(means[:, 0])
    for i in range(counts.shape[1]):
        before = counts[:, i - 1] if last_only and i else count
        count = before + counts[:, i]
        delta = means[:, i] - mean
        mean = cast(mean + delta * moved[:, i] / count)
        total = total + m2[:, i] + delta**2 * before * counts[:, i] / count
    return mean, total


def cumsum(x, blocks):
    for block in blocks:
        within = parts(x, block).cumsum(2)
        sums = within[:, :, -1:]
        last = sums.roll(1, 1)
        last[:, 0] = 0.0
        for cause, carry in (
            ("the carry is that of the previous block instead of all before it", last),
            ("the carry already includes the block's own sum", sums.cumsum(1)),
        ):
            yield cause, ((within + carry).flatten(1)[:, : x.shape[1]],)
        carry, carried = torch.zeros_like(sums[:, 0]), []
        for totals in within.unbind(1):
            carried.append(totals + carry)
            carry = carried[-1].amax(1, keepdim=True)
        cause = "the carry is the largest running total of the block instead of the last one"
        yield cause, (torch.cat(carried, 1)[:, : x.shape[1]],)
        before = (sums.cumsum(1) - sums).expand_as(within).flatten(1)[:, : x.shape[1]]
        for rows in blocks:
            down = parts(x.T, rows).cumsum(2).flatten(1).T[: len(x)]
            yield "each tile is scanned down its columns, not along its rows", (down + before,)
    cause = "the running total leaves out the element itself: an exclusive scan"
    yield cause, (x.cumsum(1) - x,)


def histogram(x, bins, blocks):
    counts = torch.bincount(x.flatten().long(), minlength=bins)
    for share in sorted({first * second for first in blocks for second in (1, *blocks)}):
        more = counts.clone()
        more[0] += -x.numel() % share
        yield "masked lanes are counted as elements that are 0", (more,)
