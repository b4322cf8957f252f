"""What a kernel does with memory: bounds, addresses, races, traffic."""

from __future__ import annotations

from collections.abc import Callable, Mapping

WORDS: Mapping[str, str | Callable[..., str]] = {}
