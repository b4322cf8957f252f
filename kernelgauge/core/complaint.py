"""What a self-test at start-up misses in the installed version of Triton or torch."""

from __future__ import annotations

from typing import NamedTuple


class Complaint(NamedTuple):
    """A repair or a hook that has no effect.

    line: says which, and in which version
    only_slows: whether it is there for speed alone. Without any other, no verdict is to be trusted
    """

    line: str
    only_slows: bool = False
