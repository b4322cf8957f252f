"""Wrong kernels' verdicts for tests that only pass them on."""

from __future__ import annotations

from typing import Any

from kernelgauge.core.verdict import Wrong
from kernelgauge.words.fault import Fault, note


def wrong(text: str, kind: str = "wrong-result", **fields: Any) -> Wrong:
    """A verdict of this kind that says each line of a text; fields: others of its fault."""
    said = tuple(note("text", text=line) for line in text.splitlines())
    return Wrong(Fault(kind, said, **fields))
