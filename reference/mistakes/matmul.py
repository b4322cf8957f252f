"""Products of matrices with one step done wrong, for chapters 07 and 17."""

import torch


def along_k(a, b, blocks, names=("a", "b")):
    """Yield (cause, product) for pointers of a (..., M, K) or b (..., K, N) that move wrongly."""
    K = a.shape[-1]
    number = torch.arange(K)
    for block in blocks:
        if not 1 < block < K:
            continue
        again, by_one = number % block, number % block + number // block
        for where, cause in (
            (again, "every step reads the first tile of {}: its pointers do not move on"),
            (by_one, "the pointers of {} move on by 1 along K a step instead of by a whole tile"),
        ):
            yield cause.format(names[0]), a[..., where] @ b
            yield cause.format(names[1]), a @ b[..., where, :]
            yield cause.format(" and ".join(names)), a[..., where] @ b[..., where, :]


def corners_swapped(x, tall, wide):
    """Return x (M, N) if its tiles are loaded at [column, row] instead of [row, column]."""
    i, j = torch.arange(x.shape[0])[:, None], torch.arange(x.shape[1])[None, :]
    rows, columns = j // wide * wide + i % tall, i // tall * tall + j % wide
    inside = (rows < x.shape[0]) & (columns < x.shape[1])
    return x[rows.where(inside, 0), columns.where(inside, 0)].where(inside, 0.0)
