"""Results of the puzzles of chapter 09 with one step done wrong."""

import itertools
from pathlib import Path

from judge.core.paths import load
from judge.diagnosis.mistakes import half_precisions

matmul = load(Path(__file__).with_name("matmul.py"))

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
        cause = "each step overwrites the accumulator instead of adding to it"
        yield cause, (sum(a[:, end] @ b[end] for end in ends),)
        cause = "every piece takes {} from the beginning of K"
        yield cause.format("b"), (sum(a[:, i:j] @ b[: j - i] for i, j in pieces),)
        yield cause.format("a"), (sum(a[:, : j - i] @ b[i:j] for i, j in pieces),)
        yield cause.format("a and b"), (sum(a[:, : j - i] @ b[: j - i] for i, j in pieces),)
    for cause, product in matmul.along_k(a, b, blocks):
        yield cause, (product,)
