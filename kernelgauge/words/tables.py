"""Tables of text."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], gap: int = 2, least: Sequence[int] = ()) -> list[str]:
    """Return rows of cells as lines, each column as wide as its widest cell.

    gap: how many blanks stand between two columns
    least: how wide columns are at least, from the first on
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths = [max(pair) for pair in zip(widths, [*least, *[0] * len(widths)], strict=False)]
    return [(" " * gap).join(map(str.ljust, row, widths)).rstrip() for row in rows]
