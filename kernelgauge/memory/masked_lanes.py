"""Poison for masked-off lanes of loads without `other`: values that spoil any result they reach."""

from __future__ import annotations

import numpy as np
import triton.language as tl

# A GPU leaves these lanes undefined. NaN spoils sums and products, but `tl.max` and `tl.min` ignore
# it, so the largest finite number, NaN and the smallest take turns. The largest comes first because
# it shows best where there is only one such lane.
_SPECIAL = {
    tl.bfloat16: (0x7F7F, 0x7FC0, 0xFF7F),
    tl.float8e5: (0x7B, 0x7F, 0xFB),
    tl.float8e4nv: (0x7E, 0x7F, 0xFE),
    tl.float8e4b8: (0x7F, 0x80, 0xFF),
    tl.float8e5b16: (0x7F, 0x80, 0xFF),
}

# Odd, so that they are not multiples of a size, and of different magnitude, so that no two cancel.
_INTEGERS = (0x5A5A5A5A5A5A5A5B, -0x3C3C3C3C3C3C3C3D)


def poisoned(mask: np.ndarray, dtype: np.dtype, element: tl.dtype) -> np.ndarray:
    """Return a tile of the mask's shape: poison where the mask is off, 0 elsewhere.

    dtype, element: NumPy's and Triton's type of the elements
    """
    tile = np.zeros(mask.shape, dtype=dtype)
    off = ~mask
    tile[off] = np.resize(_values(dtype, element), np.count_nonzero(off))
    return tile


def _values(dtype: np.dtype, element: tl.dtype) -> np.ndarray:
    """Return the values that take turns."""
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
