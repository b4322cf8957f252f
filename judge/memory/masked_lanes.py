"""What masked-off lanes hold that were loaded without `other`: values that show in any result."""

from __future__ import annotations

import numpy as np
import triton.language as tl

# A GPU leaves these lanes undefined. NaN shows in sums and products, but `tl.max` and `tl.min`
# ignore it, so the largest and the smallest finite number take turns with it; the largest comes
# first, for a single lane shows best so.
_SPECIAL = {
    tl.bfloat16: (0x7F7F, 0x7FC0, 0xFF7F),
    tl.float8e5: (0x7B, 0x7F, 0xFB),
    tl.float8e4nv: (0x7E, 0x7F, 0xFE),
    tl.float8e4b8: (0x7F, 0x80, 0xFF),
    tl.float8e5b16: (0x7F, 0x80, 0xFF),
}

# Odd, so that they are no multiple of a size, and of unlike magnitude, so that no two cancel.
_INTEGERS = (0x5A5A5A5A5A5A5A5B, -0x3C3C3C3C3C3C3C3D)


def values(dtype: np.dtype, element: tl.dtype) -> np.ndarray:
    """The values that take turns, for elements that Triton calls `element` and NumPy `dtype`."""
    if element in _SPECIAL and dtype.kind == "u":
        return np.array(_SPECIAL[element], dtype=dtype)
    if dtype.kind == "f":
        largest = np.finfo(dtype).max
        return np.array((largest, np.nan, -largest), dtype=dtype)
    if dtype.kind == "b":
        return np.array((True,))
    # The high bytes, so that small types get large values too.
    shift = 64 - 8 * dtype.itemsize
    return np.array([value >> shift for value in _INTEGERS]).astype(dtype) | dtype.type(1)


def poisoned(mask: np.ndarray, dtype: np.dtype, element: tl.dtype) -> np.ndarray:
    """A tile of poison where the mask is off, of the mask's shape."""
    tile = np.zeros(mask.shape, dtype=dtype)
    off = ~mask
    tile[off] = np.resize(values(dtype, element), np.count_nonzero(off))
    return tile
