"""Results of the puzzles of chapter 17 with one step done wrong."""

import itertools
import math
from pathlib import Path

import torch
from torch.nn.functional import pad

from kernelgauge.core.paths import load

attention = load(Path(__file__).with_name("attention.py"))
matmul = load(Path(__file__).with_name("matmul.py"))

# As many programs as the tests' GPUs have multiprocessors.
PROGRAMS = 4, 6
CARRIED = "{} not begun anew for each tile: what the program's tile before left is still in it"


def over_turns(tiles, programs):
    """Return tiles (count, ...) with each tile added to those that its program had before."""
    rounds = -(-len(tiles) // programs)
    missing = tiles.new_zeros(rounds * programs - len(tiles), *tiles.shape[1:])
    turns = torch.cat([tiles, missing]).view(rounds, programs, *tiles.shape[1:])
    return turns.cumsum(0).flatten(0, 1)[: len(tiles)]


def _tile_orders(rows, columns, blocks):
    """Yield orders in which a rows x columns grid of tiles is taken: tile numbers, row by row."""
    numbers = torch.arange(rows * columns).view(rows, columns)
    yield numbers.flatten()
    yield numbers.T.flatten()
    for height in blocks:
        if 1 < height <= 16:
            yield torch.cat([group.T.flatten() for group in numbers.split(height)])


def persistent_attention(q, k, v, scale, causal, blocks):
    for cause, out, _ in attention.forward(q, k, v, scale, causal, blocks=blocks):
        yield cause, (out,)
    (S, D), factor = q.shape[2:], attention.effective(scale, q)
    keys, values = attention.served(k, q), attention.served(v, q)
    for tall in blocks:
        count = -(-S // tall)
        if tall < 16 or q.shape[0] * q.shape[1] * count <= min(PROGRAMS):
            continue
        rows = pad(q, (0, 0, 0, count * tall - S))
        mask = attention.seen(rows, k, causal, None)()
        x = (rows @ keys.mT * factor).masked_fill(~mask, -math.inf)
        shifted = torch.exp(x - x.amax())
        parts = torch.cat([shifted @ values, shifted.sum(-1, True)], -1)
        tiles = parts.flatten(0, 1).unflatten(1, (count, tall))
        for reverse, by_head, programs in itertools.product((True, False), (0, 1), PROGRAMS):
            listed = tiles.flip(1) if reverse else tiles
            listed = listed if by_head else listed.transpose(0, 1)
            made = over_turns(listed.flatten(0, 1), programs).view(listed.shape)
            made = made if by_head else made.transpose(0, 1)
            made = (made.flip(1) if reverse else made).reshape(*q.shape[:2], -1, D + 1)[:, :, :S]
            cause = CARRIED.format("the sum and the accumulator are")
            yield cause, (made[..., :D] / made[..., D:],)


def persistent_matmul(a, b, blocks):
    for cause, product in matmul.along_k(a, b, blocks):
        yield cause, (product,)
    M, N = a.shape[0], b.shape[1]
    sides = [block for block in blocks if block >= 16]
    for tall, wide in itertools.product(sides, sides):
        rows, columns = -(-M // tall), -(-N // wide)
        if rows * columns <= min(PROGRAMS):
            continue
        i, j = torch.arange(rows * tall) % M, torch.arange(columns * wide) % N
        # The rows past the edge are those from the first one on, or 0.
        for c in (a[i] @ b[:, j], pad(a @ b, (0, columns * wide - N, 0, rows * tall - M))):
            tiles = c.unflatten(1, (columns, wide)).unflatten(0, (rows, tall)).transpose(1, 2)
            tiles = tiles.flatten(0, 1)
            for order, programs in itertools.product(_tile_orders(rows, columns, blocks), PROGRAMS):
                once = torch.zeros_like(tiles)
                once[order[:programs]] = tiles[order[:programs]]
                added = torch.zeros_like(tiles)
                added[order] = over_turns(tiles[order], programs)
                for cause, made in (
                    (CARRIED.format("the accumulator is"), added),
                    ("the position along K is not set back to 0 for a program's next tile", once),
                ):
                    made = made.unflatten(0, (rows, columns)).transpose(1, 2)
                    yield cause, (made.flatten(2).flatten(0, 1)[:M, :N],)


def descriptor_matmul(a, b, blocks):
    yield from persistent_matmul(a, b, blocks)
    sides = [block for block in blocks if block >= 16]
    for tall, wide in itertools.product(sides, sides):
        cause = "{0} is loaded at [{2}, {1}] instead of [{1}, {2}]"
        yield cause.format("b", "k", "n"), (a @ matmul.corners_swapped(b, tall, wide),)
        yield cause.format("a", "m", "k"), (matmul.corners_swapped(a, tall, wide) @ b,)


def persistent_softmax(x, blocks):
    # Up to eight share a multiprocessor.
    counts = [each * programs for each in (1, 2, 4, 8) for programs in PROGRAMS]
    shifted = torch.exp(x - x.amax(1, keepdim=True))
    yield "the sum is along the wrong axis", (shifted / shifted.sum(0),)
    for programs in counts:
        tops = x.amax(1, keepdim=True)
        turns = [tops[begin::programs].cummax(0).values for begin in range(programs)]
        running = torch.stack([turns[i % programs][i // programs] for i in range(len(x))])
        # In float32, where a row far below another one is 0 altogether.
        low = torch.exp((x - running).float()).double()
        yield CARRIED.format("the maximum is"), (low / low.sum(1, keepdim=True),)
    total = shifted.sum(1)
    right = shifted / total[:, None]
    for tall, programs in itertools.product({1, *blocks}, counts):
        later = tall * programs
        if later < len(x):
            ahead = torch.cat([right[:later], right[tall : len(x) - later + tall]])
            yield "the tile fetched ahead is the next one, not the program's next", (ahead,)
        if tall * min(PROGRAMS) < len(x):
            tiles = pad(total, (0, -len(x) % tall)).view(-1, tall)
            made = over_turns(tiles, programs).flatten()[: len(x), None]
            yield CARRIED.format("the sum is"), (shifted / made,)
