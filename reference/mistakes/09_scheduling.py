"""Results of the puzzles of chapter 09 with one step done wrong."""

import itertools
from functools import partial
from pathlib import Path

import torch

from kernelgauge.core.paths import load
from kernelgauge.diagnosis.mistakes import half_precisions
from kernelgauge.words.fault import note

matmul = load(Path(__file__).with_name("matmul.py"))

# How many multiprocessors the tests of 09.2 give.
PROGRAMS = 3, 4, 5, 7, 12
# More pieces than the tests' GPUs have multiprocessors are not tried.
MAX_PIECES = 16


def _pieces(K, blocks):
    """Yield each step's length and the bounds of the pieces that K may be cut into."""
    for block in blocks:
        steps = -(-K // block)
        for pieces in range(2, min(steps, MAX_PIECES) + 1) if block >= 16 else ():
            yield block, [min(K, piece * steps // pieces * block) for piece in range(pieces + 1)]
            yield block, [*range(0, K, -(-steps // pieces) * block), K]


def split_k_matmul(a, b, blocks):
    for block, bounds in _pieces(a.shape[1], blocks):
        pieces = list(itertools.pairwise(bounds))
        parts = [a[:, i:j] @ b[i:j] for i, j in pieces]
        for name, cast in half_precisions():
            cause = f"the sums of the pieces are rounded to {name} before they are added"
            yield cause, (sum(map(cast, parts)),)
        yield "the last piece of K is not added", (sum(parts[:-1]),)
        yield "the first piece of K is not added", (sum(parts[1:]),)
        for one in (parts[0], parts[-1]):
            yield "a single piece of K is stored, without the others", (one,)
        ends = [range(max(i, i + (j - i - 1) // block * block), j) for i, j in pieces]
        cause = note("accumulator-overwritten")
        yield cause, (sum(a[:, end] @ b[end] for end in ends),)
        cause = "every piece takes {} from the beginning of K"
        yield cause.format("b"), (sum(a[:, i:j] @ b[: j - i] for i, j in pieces),)
        yield cause.format("a"), (sum(a[:, : j - i] @ b[i:j] for i, j in pieces),)
        yield cause.format("a and b"), (sum(a[:, : j - i] @ b[: j - i] for i, j in pieces),)
    for block, bounds in _uneven_pieces(a.shape[1], blocks):
        ends = [i + -(-(j - i) // block) * block for i, j in itertools.pairwise(bounds)]
        cause = "the last step of a piece goes on into the next piece, which adds the same again"
        yield cause, (sum(a[:, i:j] @ b[i:j] for i, j in zip(bounds[:-1], ends, strict=True)),)
    for cause, product in matmul.along_k(a, b, blocks):
        yield cause, (product,)


def _uneven_pieces(K, blocks):
    """Yield each step's length and the bounds of pieces of K that it may not divide."""
    for block in blocks:
        for pieces in range(2, min(K // block, MAX_PIECES) + 1) if block >= 16 else ():
            if -(-K // pieces) % block:
                yield block, [*range(0, K, -(-K // pieces)), K]


def _shares(tiles, steps, programs):
    """The parts of each tile, as (program, first step, last step), if the steps are streamed."""
    total = tiles * steps
    programs = min(programs, total)
    bounds = [program * total // programs for program in range(programs + 1)]
    parts = [[] for _ in range(tiles)]
    for program, (begin, end) in enumerate(itertools.pairwise(bounds)):
        while begin < end:
            last = min(end, (begin // steps + 1) * steps)
            parts[begin // steps].append((program, begin % steps, last - begin // steps * steps))
            begin = last
    return parts


class _Streamed:
    """A product whose tiles are cut along K into parts, each the share of one program.

    sums: the product after 0, 1, ... steps along K
    tall, wide: the size of a tile
    """

    def __init__(self, sums, tall, wide, programs):
        self.sums = sums
        steps, M, N = sums.shape
        corners = itertools.product(range(0, M, tall), range(0, N, wide))
        self.tiles = [(slice(i, i + tall), slice(j, j + wide)) for i, j in corners]
        self.parts = _shares(len(self.tiles), steps - 1, programs)

    def of_parts(self, *chosen):
        """Return the product of these parts of each tile alone. Part -1 is the last."""
        product = torch.zeros_like(self.sums[0])
        for here, parts in zip(self.tiles, self.parts, strict=True):
            for _, begin, end in {parts[part] for part in chosen if part < len(parts)}:
                product[here] += self.sums[end][here] - self.sums[begin][here]
        return (product,)

    def not_begun_anew(self):
        """Return the product if each program goes on adding to its tile before."""
        product, owner, carried = self.sums[-1].clone(), None, None
        for here, parts in zip(self.tiles, self.parts, strict=True):
            height, width = product[here].shape
            begun = carried if owner == parts[0][0] else torch.zeros_like(product[self.tiles[0]])
            product[here] += begun[:height, :width]
            owner, begin, end = parts[-1]
            carried = begun.clone() if len(parts) == 1 else torch.zeros_like(begun)
            carried[:height, :width] += self.sums[end][here] - self.sums[begin][here]
        return (product,)


def _sums_of_steps(a, b, step):
    """Return a @ b after 0, 1, ... steps along K."""
    K = a.shape[1]
    parts = [torch.zeros(len(a), b.shape[1], dtype=a.dtype)]
    parts += [a[:, k : k + step] @ b[k : k + step] for k in range(0, K, step)]
    return torch.stack(parts).cumsum(0)


def stream_k_matmul(a, b, blocks):
    K = a.shape[1]
    sides = [block for block in blocks if block >= 16]
    sums = {step: _sums_of_steps(a, b, step) for step in sides}
    for tall, wide, step, programs in itertools.product(sides, sides, sides, PROGRAMS):
        streamed = _Streamed(sums[step], tall, wide, programs)
        for which, chosen in (
            ("the first", [0]),
            ("the last", [-1]),
            ("the first and the last", [0, -1]),
            ("the first two", [0, 1]),
        ):
            cause = f"not all parts of a tile are added: only {which}"
            yield cause, partial(streamed.of_parts, *chosen)
        cause = "the accumulator is not begun anew for each tile of a share"
        yield cause, streamed.not_begun_anew
    for _, bounds in _pieces(K, blocks):
        parts = [a[:, i:j] @ b[i:j] for i, j in itertools.pairwise(bounds)]
        for name, cast in half_precisions():
            cause = f"the parts of a tile are rounded to {name} before they are added"
            yield cause, (sum(map(cast, parts)),)
    for cause, product in matmul.along_k(a, b, blocks):
        yield cause, (product,)


def gram_matrix(a, blocks):
    for cause, product in matmul.along_k(a, a.T, blocks, ("a", "a.T")):
        yield cause, (product,)
    product = a @ a.T
    number = torch.arange(len(a))
    rows, columns = number[:, None], number[None, :]
    for block in blocks:
        if not 16 <= block < len(a):
            continue
        above = rows // block < columns // block
        # What lies at the same place within the mirrored tile.
        i = columns // block * block + rows % block
        j = rows // block * block + columns % block
        inside = (i < len(a)) & (j < len(a))
        untransposed = product[i.where(inside, 0), j.where(inside, 0)].where(inside, 0.0)
        cause = "the tiles above the diagonal are stored as those below, without being transposed"
        yield cause, (untransposed.where(above, product),)
    yield "c is 0 above the diagonal", (product.tril(),)


def grouped_matmul(a, b, ends, blocks):
    ends = ends.tolist()
    starts = [0, *ends[:-1]]
    groups = range(len(ends))

    def product(rows, of):
        """c if the rows from rows[g][0] to rows[g][1] are multiplied by b[of(g)]."""
        parts = [a[i:j] @ b[of(g)] for g, (i, j) in zip(groups, rows, strict=True)]
        return torch.cat(parts)

    rows = list(zip(starts, ends, strict=True))
    for cause, of in (
        ("b of the group before is used", lambda g: max(g - 1, 0)),
        ("b of the group after is used", lambda g: min(g + 1, len(ends) - 1)),
        ("b of the last group is used for all groups", lambda g: -1),
    ):
        yield cause, (product(rows, of),)
    filled = [g for g, (i, j) in enumerate(rows) if i < j]
    place = {g: number for number, g in enumerate(filled)}
    cause = "groups without rows are not counted: later groups use b of an earlier one"
    yield cause, (product(rows, lambda g: place.get(g, 0)),)
    for block in blocks:
        # Where tiles begin at multiples of a tile, each belongs to the group of its first row.
        if 16 <= block < len(a):
            group = {row: sum(end <= row for end in ends) for row in range(0, len(a), block)}
            parts = [a[row : row + block] @ b[group[row]] for row in group]
            cause = "a tile crosses the end of a group, and all of its rows are of the first one"
            yield cause, (torch.cat(parts),)
    for cause, _ in matmul.along_k(a, b[0], blocks):
        parts = []
        for g, (i, j) in enumerate(rows):
            made = dict(matmul.along_k(a[i:j], b[g], blocks))
            parts.append(made[cause])
        yield cause, (torch.cat(parts),)


def pruned_matmul(a, b, blocks):
    for cause, product in matmul.along_k(a, b, blocks):
        yield cause, (product,)
