"""Which of a long list of proofs run on each change: the nightly tier runs all."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import pytest


def is_sampled(wrong: Any, one_in: int) -> bool:
    """Whether it is one of so many; chosen by its own name, so that a new one chooses no other."""
    return zlib.crc32(f"{wrong.puzzle}.{wrong.name}".encode()) % one_in == 0


def params(items: Iterable, one_in: int) -> list:
    """Wrong kernels as parameters named "puzzle-name": one of so many, and the rest nightly."""
    return [
        pytest.param(
            it,
            id=f"{it.puzzle}-{it.name}",
            marks=[] if is_sampled(it, one_in) else [pytest.mark.nightly],
        )
        for it in items
    ]
