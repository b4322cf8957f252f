"""What the puzzles of chapter 02 give with one step done wrong."""

import math

import torch

from judge.core.dtypes import dtype_name


def triu(x, diagonal, blocks):
    yield "row and column the wrong way round in the comparison", (x.tril(-diagonal),)
    yield "the lower triangle in place of the upper", (x.tril(diagonal),)


def outer_add(x, y, blocks):
    yield "a product in place of a sum", (x[:, None] * y,)


def scale(x, factor, blocks):
    yield "a sum in place of a product", (x + factor,)
    if math.isfinite(factor):
        yield "factor cut to a whole number", (x * int(factor),)
        for dtype in (torch.float16, torch.bfloat16):
            rounded = torch.tensor(factor, dtype=dtype).item()
            yield f"factor rounded to {dtype_name(dtype)}, not kept in float32", (x * rounded,)


def transpose(x, blocks):
    M, N = x.shape
    for block in blocks:
        padded = torch.nn.functional.pad(x, (0, -N % block, 0, -M % block))
        tiles = padded.unflatten(1, (-1, block)).unflatten(0, (-1, block))
        stored = tiles.permute(2, 1, 0, 3).flatten(2).flatten(0, 1)
        yield "tiles that are stored as they were loaded, not transposed", (stored[:N, :M],)
