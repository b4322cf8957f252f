"""What the puzzles of chapter 03 give with one step done wrong."""

import torch

from judge.core.dtypes import dtype_name


def parts(x, block):
    """x (M, N) as (M, N / block, block), 0 past its end."""
    rest = -x.shape[1] % block
    return torch.nn.functional.pad(x, (0, rest)).unflatten(1, (-1, block))


def row_sum(x, blocks):
    for block in blocks:
        for dtype in (torch.float16, torch.bfloat16):
            lanes = 0.0
            for part in parts(x, block).unbind(1):
                lanes = (lanes + part).to(dtype).double()
            name = dtype_name(dtype)
            yield f"a sum accumulated in {name} and not in float32", (lanes.sum(1),)


def variance(x, blocks):
    N, mean = x.shape[1], x.mean(1, keepdim=True)
    squares = (x - mean).square().sum(1)
    for block in blocks:
        lost = -N % block
        cause = "masked-off lanes that are counted: the 0 in them is far from the mean"
        yield cause, ((squares + lost * mean[:, 0].square()) / (N - 1),)
        near = mean * N / (N + lost)
        yield (
            f"a mean over {N + lost} elements, the size of the block, in place of {N}",
            ((x - near).square().sum(1) / (N - 1),),
        )


def welford(x, blocks):
    N = x.shape[1]
    for block in blocks:
        counts = parts(torch.ones_like(x), block).sum(2)
        means = parts(x, block).sum(2) / counts
        inside = parts(torch.ones_like(x), block)
        away = parts(x, block) - means[:, :, None]
        m2 = (away * inside).square().sum(2)
        cause = "the distance between the means of two blocks left out of the squares"
        yield cause, (None, m2.sum(1) / (N - 1))
        lanes = away.square().sum(2).sum(1) - m2.sum(1)
        right = (x - x.mean(1, keepdim=True)).square().sum(1)
        cause = "masked-off lanes that are counted: the 0 in them is far from the mean"
        yield cause, (None, (right + lanes) / (N - 1))
        mean, total_m2 = means[:, 0], m2[:, 0]
        for i in range(1, counts.shape[1]):
            total = counts[:, i - 1] + counts[:, i]
            delta = means[:, i] - mean
            mean = mean + delta * counts[:, i] / total
            total_m2 = total_m2 + m2[:, i] + delta**2 * counts[:, i - 1] * counts[:, i] / total
        for dtype in (torch.float16, torch.bfloat16):
            name = dtype_name(dtype)
            yield f"a mean carried in {name}, not in float32", carried(counts, means, m2, dtype)
        cause = "a count that is that of the last block only"
        yield cause, (mean, total_m2 / (N - 1))
        yield cause, (mean, None)


def carried(counts, means, m2, dtype):
    """Mean and variance from those of the blocks, with the mean rounded after each."""
    count, mean, total = torch.zeros_like(counts[:, 0]), torch.zeros_like(means[:, 0]), 0.0
    for i in range(counts.shape[1]):
        delta, before = means[:, i] - mean, count
        count = count + counts[:, i]
        mean = (mean + delta * counts[:, i] / count).to(dtype).double()
        total = total + m2[:, i] + delta**2 * before * counts[:, i] / count
    return mean, total / (count - 1)


def cumsum(x, blocks):
    for block in blocks:
        within = parts(x, block).cumsum(2)
        sums = within[:, :, -1:]
        last = sums.roll(1, 1)
        last[:, 0] = 0.0
        for cause, carry in (
            ("a carry of the block before only, not of all before it", last),
            ("a carry that has the block's own sum already", sums.cumsum(1)),
        ):
            yield cause, ((within + carry).flatten(1)[:, : x.shape[1]],)
