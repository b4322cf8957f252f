"""What a wrong result looks like, and which mistakes make it so."""

from __future__ import annotations

from collections.abc import Callable, Mapping

WORDS: Mapping[str, str | Callable[..., str]] = {}
