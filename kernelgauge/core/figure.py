"""What a check measured, beside what its budget or its bar asks for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One measured number.

    name: what was measured, in a learner's words: x read
    measured, limit: in `unit`; a limit of None asks for nothing
    unit: "x" for times, "bytes", "elements", "ms", ...; "" where the name says what is counted
    at_least: whether the limit is the least that is asked for, not the most
    """

    name: str
    measured: float
    limit: float | None = None
    unit: str = ""
    at_least: bool = False

    def plain(self) -> dict[str, Any]:
        """Return it in Python's own types, which xdist and JSON carry; NumPy's they do not."""
        limit = None if self.limit is None else float(self.limit)
        return asdict(self) | {"measured": float(self.measured), "limit": limit}
