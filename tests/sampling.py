"""Which of a long list of proofs run on each change: the nightly tier runs all."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import pytest


def is_sampled(name: str, one_in: int) -> bool:
    """Whether it is one of so many; chosen by its own name, so that a new one chooses no other."""
    return zlib.crc32(name.encode()) % one_in == 0


def name_of(wrong: Any) -> str:
    """Return what a wrong kernel is known by: "puzzle.name"."""
    return f"{wrong.puzzle}.{wrong.name}"


def params(items: Iterable, one_in: int) -> list:
    """Wrong kernels as parameters named "puzzle-name": one of so many, and the rest nightly."""
    return [
        pytest.param(it, id=f"{it.puzzle}-{it.name}", marks=marks(name_of(it), one_in))
        for it in items
    ]


def names(given: Iterable[str], one_in: int) -> list:
    """Names, as of puzzles, as parameters: one of so many, and the rest nightly."""
    return [pytest.param(it, marks=marks(it, one_in)) for it in given]


def marks(name: str, one_in: int) -> list:
    """Return what marks this name, of a parameter: nothing for one of so many."""
    return [] if is_sampled(name, one_in) else [pytest.mark.nightly]
