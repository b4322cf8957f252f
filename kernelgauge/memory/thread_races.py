"""Threads of a program that meet in an element: tiles are shared out among warps, which run freely.

A later access sees an earlier store only if the same warp makes both, or if a barrier stands
between them. How a tile is shared out is the compiler's to decide, so that a fault is told only
where every way that it has puts the two in different warps, and where nothing between them may make
it place a barrier. Tiles of several dimensions are therefore not looked at, nor is a store after a
load, whose data may go through shared memory on the way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kernelgauge.core.launch import Launch
from kernelgauge.memory.data_races import Ledger

# Methods of the interpreter's builder that may place a barrier, or stand for code that may.
BARRIERS = (
    "create_barrier", "create_dot", "create_dot_scaled", "create_histogram", "create_gather",
    "create_trans", "create_reshape", "create_cat", "create_join", "create_split",
    "create_expand_dims", "create_atomic_rmw", "create_atomic_cas",
)  # fmt: skip

THREADS_PER_WARP, MAX_VECTOR_BYTES = 32, 16


class _Stored(NamedTuple):
    """Units that one access stored, sorted, and a bit for each warp that may have done it."""

    units: np.ndarray
    warps: np.ndarray


class Unfenced:
    """The stores of the running program since the last barrier."""

    def __init__(self, launch: Launch):
        self._warps = int(str(launch.options.get("num_warps") or 4))
        self._stores: dict[tuple[int, int], dict[int, _Stored]] = {}

    def forget(self) -> None:
        """Begin anew, at a barrier or in another program."""
        self._stores.clear()

    def meeting(
        self, ledger: Ledger, units: np.ndarray, mask: np.ndarray, size: int
    ) -> tuple[int, int] | None:
        """Return an element that another warp stored, and the number of that access.

        units: those of the active lanes
        mask, size: the active lanes of an access, and its bytes a lane
        """
        stores = self._stores.get((id(ledger), ledger.unit))
        if not stores or (warps := self._of(units, mask, size)) is None:
            return None
        last = ledger.last["writes"][units]
        for number in np.unique(last[last >= min(stores)]).tolist():
            if number not in stores:
                continue
            mine = np.flatnonzero(last == number)
            stored = stores[number]
            theirs = stored.warps[np.searchsorted(stored.units, units[mine])]
            apart = np.flatnonzero(theirs & warps[mine] == 0)
            if apart.size:
                return int(mine[apart[0]]), number
        return None

    def note(
        self, ledger: Ledger, units: np.ndarray, mask: np.ndarray, size: int, number: int
    ) -> None:
        """Keep a store, by the number of the access."""
        if (warps := self._of(units, mask, size)) is not None:
            order = np.argsort(units, kind="stable")
            stores = self._stores.setdefault((id(ledger), ledger.unit), {})
            stores[number] = _Stored(units[order], warps[order])

    def _of(self, units: np.ndarray, mask: np.ndarray, size: int) -> np.ndarray | None:
        """Return the warps that may have each unit, one bit each; None where that is not known."""
        if self._warps == 1 or not units.size:
            return None
        if mask.size == 1:
            # The first thread stores it.
            return np.ones(units.shape, np.int64)
        threads = THREADS_PER_WARP * self._warps
        if mask.ndim != 1 or mask.size < threads:
            return None
        lanes = np.flatnonzero(mask)
        warps, vector = np.zeros(lanes.shape, np.int64), 1
        while vector * size <= MAX_VECTOR_BYTES and vector * threads <= mask.size:
            warps |= 1 << lanes // (THREADS_PER_WARP * vector) % self._warps
            vector *= 2
        return np.repeat(warps, units.size // lanes.size)
