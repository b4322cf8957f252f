"""Which Triton is installed, where its releases differ."""

from __future__ import annotations

import triton

# Major and minor number.
TRITON = tuple(map(int, triton.__version__.split(".")[:2]))
