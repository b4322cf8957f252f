"""What the compiler says of a kernel, what it needs of a GPU, and how fast it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

WORDS: Mapping[str, str | Callable[..., str]] = {}
