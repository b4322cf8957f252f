"""An instrument that holds Triton kernels to a reference: memory, numerics, traffic, compilation.

It knows kernels, and neither puzzles nor pytest: the course is built on it. The packages are rooms
of one concern each; docs/judge.md is the map, and pyproject.toml holds the order of their imports.
docs/kernelgauge.md says how to use it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelgauge.core.verdict import NotMeasured, Unsolved, Wrong
    from kernelgauge.kernel import Kernel
    from kernelgauge.run import Run
    from kernelgauge.setup import install

__all__ = ["Kernel", "NotMeasured", "Run", "Unsolved", "Wrong", "install"]

# Where names are found when they are first asked for: `install` comes before torch and Triton.
_HOMES = {
    "Kernel": "kernel",
    "NotMeasured": "core.verdict",
    "Run": "run",
    "Unsolved": "core.verdict",
    "Wrong": "core.verdict",
    "install": "setup",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
