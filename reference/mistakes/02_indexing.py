"""Results of the puzzles of chapter 02 with one step done wrong."""

import itertools
import math

import torch

from kernelgauge.core.dtypes import dtype_name


def triu(x, diagonal, blocks):
    rows, columns = (torch.arange(size) for size in x.shape)
    # torch adds it to a row in int64, too.
    wrapped = torch.where(columns >= rows[:, None] + diagonal, x, 0.0)
    diagonal = min(max(diagonal, -x.shape[0]), x.shape[1])
    yield "row + diagonal passes 2**63 - 1 and wraps around", (wrapped,)
    yield "row and column are swapped in the comparison", (x.tril(-diagonal),)
    yield "the lower triangle is kept instead of the upper", (x.tril(diagonal),)
    for tall, wide in itertools.product(blocks, blocks):
        corner = columns // wide * wide - (rows // tall * tall)[:, None]
        cause = "tiles whose upper left corner is below the diagonal count as below it altogether"
        yield cause, (x.triu(diagonal).where(corner >= diagonal, 0.0),)
        right = columns // wide * wide + wide - 1 - (rows // tall * tall)[:, None]
        cause = "tiles below the main diagonal are skipped, whatever diagonal is"
        yield cause, (x.triu(diagonal).where(right >= 0, 0.0),)


def outer_add(x, y, blocks):
    yield "x and y are multiplied instead of added", (x[:, None] * y,)


def scale(x, factor, blocks):
    yield "factor is added instead of multiplied", (x + factor,)
    if math.isfinite(factor):
        yield "factor is cut to a whole number", (x * int(factor),)
        for dtype in (torch.float16, torch.bfloat16):
            rounded = torch.tensor(factor, dtype=dtype).item()
            yield f"factor is rounded to {dtype_name(dtype)}, not kept in float32", (x * rounded,)


def transpose(x, blocks):
    M, N = x.shape
    for block in blocks:
        padded = torch.nn.functional.pad(x, (0, -N % block, 0, -M % block))
        tiles = padded.unflatten(1, (-1, block)).unflatten(0, (-1, block))
        stored = tiles.permute(2, 1, 0, 3).flatten(2).flatten(0, 1)
        yield "each tile is stored as it was loaded, not transposed", (stored[:N, :M],)
