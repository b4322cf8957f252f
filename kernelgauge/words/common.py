"""What more than one room says."""

from __future__ import annotations

from collections.abc import Callable, Mapping

WORDS: Mapping[str, str | Callable[..., str]] = {
    "text": "{text}",
}
