"""Means and sums of squares of blocks that are merged with a wrong count: chapters 03, 05, 12."""

import torch

from kernelgauge.diagnosis.mistakes import named


def without_tail(x, block):
    """Return (mean, squares) along x's last dimension where the sums end with its whole blocks."""
    N = x.shape[-1]
    whole = x[..., : N // block * block]
    mean = whole.sum(-1) / N
    return mean, (whole - mean[..., None]).square().sum(-1)


def wrong_merges(x, block):
    """Yield (cause, mean, squares) along x's last dimension.

    squares: the sum of the squared distances from the mean, None where it is right
    """
    N = x.shape[-1]
    parts = [(it.shape[-1], *_moments(it)) for it in x.split(block, -1)]
    right = x.mean(-1)
    squares = (x - right[..., None]).square().sum(-1)

    def merged(weight, factor=None, parts=parts):
        """Merge one by one; weight: of the distance between two means, factor: of its square.

        Both take the count before and that of the block. Without a factor, each element's distance
        from the wrong mean is taken.
        """
        mean = total = torch.zeros_like(right)
        before = 0
        for count, own, m2 in parts:
            distance = own - mean
            mean = mean + distance * weight(before, count)
            if factor:
                total = total + m2 + distance.square() * factor(before, count)
            before += count
        return mean, total if factor else squares + N * (mean - right).square()

    def usual(before, count):
        return count / (before + count)

    def product(before, count):
        return before * usual(before, count)

    if rest := N % block:
        cause = named(
            "the merge counts {block} elements of the last block, which has {rest}",
            block=block,
            rest=rest,
        )

        def full(before, count):
            return block / (before + block)

        def product_with_full(before, count):
            return before * full(before, count)

        yield cause, *merged(full, product_with_full)
        last = x[..., N - rest :]
        mean = last.sum(-1) / block
        own = rest, mean, (last - mean[..., None]).square().sum(-1)
        yield cause, *merged(full, product_with_full, [*parts[:-1], own])

        def beside_full(before, count):
            return count / (before + block)

        for factor in (None, product, lambda before, count: before * beside_full(before, count)):
            yield cause, *merged(beside_full, factor)
    cause = "two means are averaged when they are merged, whatever their counts are"
    for factor in (None, product, lambda before, count: before / 2):
        yield cause, *merged(lambda before, count: 0.5, factor)
        if block < N:
            yield cause, *merged(lambda before, count: 0.5 if before else 1.0, factor)
    if block >= N:
        return
    cause = (
        "the squared distance of two means is multiplied by another number than "
        "before * count / (before + count) when they are merged"
    )
    for factor in (
        lambda before, count: count,
        lambda before, count: count * bool(before),
        lambda before, count: before,
        lambda before, count: before * count,
        lambda before, count: bool(before),
    ):
        yield cause, *merged(usual, factor)


def wrong_merges_of_lanes(x, block):
    """Yield (cause, mean, squares) for lanes that each take every `block`-th element of x."""
    N = x.shape[-1]
    steps = -(-N // block)
    padded = torch.nn.functional.pad(x, (0, -N % block)).unflatten(-1, (steps, block))
    inside = (torch.arange(steps * block) < N).view(steps, block)
    counts = inside.sum(0)
    means = padded.sum(-2) / counts.clamp(min=1)
    m2 = ((padded - means[..., None, :]) * inside).square().sum(-2)

    def merged(mean, weights):
        distances = (means - mean[..., None]).square()
        return mean, (m2 + weights * distances).sum(-1)

    right = x.mean(-1)
    if N % block:
        cause = "the means of lanes are averaged without their counts"
        yield cause, *merged(means.mean(-1), counts)
        cause = "lanes count what the mask leaves out, too"
        yield cause, *merged(means.sum(-1) * steps / N, steps)
    cause = "the squared distance of a lane's mean is not multiplied by the lane's count"
    yield cause, *merged(right, 1)


def _moments(x):
    mean = x.mean(-1)
    return mean, (x - mean[..., None]).square().sum(-1)
