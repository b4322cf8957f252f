"""What a launcher does: its result, its memory, its calls, its honesty."""

from __future__ import annotations

from collections.abc import Callable, Mapping

WORDS: Mapping[str, str | Callable[..., str]] = {}
