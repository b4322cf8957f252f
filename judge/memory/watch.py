"""What each program of an interpreted kernel loads and stores, checked before it happens.

Triton's interpreter funnels every access through one place, where `access_hooks` hands it to the
`Tracker` of the launch. What outlives a launch is kept by the `Watch` of the run.
"""

from __future__ import annotations

import numpy as np
import torch

from judge.core.launch import Launch
from judge.core.verdict import Wrong
from judge.memory import coordinates
from judge.memory.addresses import Region, Storage
from judge.memory.budgets import Traffic
from judge.memory.call_sites import CallSites
from judge.memory.data_races import History

# Contents of larger allocations are not compared from launch to launch.
MAX_COMPARED_BYTES = 2**26


_watches: list[Watch] = []


class Watch:
    """One run of a subject: `with Watch(...) as watch:` around the call.

    order: of the programs of each launch, "ascending" (x fastest) or "shuffled"
    seed: of the shuffled order
    poison: masked-off lanes of loads without `other` get values that spoil a result; 0 otherwise
    count: record the traffic of each access
    programs: which run: "all" of a launch, the first and the last ("ends"), or "none"
    inputs: the subject's tensors, by the names of its parameters
    launches: what was launched, in order
    loads_without_other: how many masked-off lanes were loaded so, by (file, line)
    traffic: what the launches moved, if `count`
    """

    def __init__(
        self,
        order: str = "ascending",
        seed: int = 0,
        poison: bool = True,
        count: bool = False,
        programs: str = "all",
        inputs: dict[str, torch.Tensor] | None = None,
    ):
        if order not in ("ascending", "shuffled"):
            raise ValueError(f'order is {order!r}, not "ascending" or "shuffled"')
        self.order, self.seed, self.poison, self.programs = order, seed, poison, programs
        self.launches: list[Launch] = []
        self.loads_without_other: dict[tuple[str, int], int] = {}
        self.history = History()
        self.sites = CallSites()
        self.known: list[Region] = []
        self.traffic = Traffic(self.sites, inputs or {}) if count else None
        self.given = {x.untyped_storage().data_ptr() for x in (inputs or {}).values()}
        self._storages: dict[int, Storage] = {}
        self._remembered: list[tuple[Region, np.ndarray]] = []
        for name, tensor in (inputs or {}).items():
            self.know(tensor, name)

    def __enter__(self) -> Watch:
        _watches.append(self)
        return self

    def __exit__(self, kind, *_) -> None:
        _watches.remove(self)
        if kind is None:
            self.check_contents()

    def know(self, tensor: torch.Tensor, name: str) -> None:
        """Kernels may reach this tensor by its data_ptr(), read from memory."""
        if all(region.tensor is not tensor for region in self.known):
            self.known.append(self.region(name, tensor))

    def remember(self, tensor: torch.Tensor, name: str = "an allocation") -> None:
        """Know a tensor, and that from here on only kernels change its contents.

        Called again after every other change that is allowed, such as zero_().
        """
        self.know(tensor, name)
        region = self.region(name, tensor)
        of_storage = [pair for pair in self._remembered if pair[0].storage is region.storage]
        for remembered, before in of_storage:
            before[:] = remembered.contents()
        if not of_storage and region.extent <= MAX_COMPARED_BYTES:
            self._remembered.append((region, region.contents().copy()))

    def check_contents(self) -> None:
        """Raises Wrong if a remembered tensor was changed by anything but a kernel."""
        for region, before in self._remembered:
            contents = region.contents()
            if not np.array_equal(contents, before):
                changed = np.flatnonzero(contents != before)
                element = coordinates.element_text(region, int(changed[0]), name="")
                raise Wrong(
                    f"{region.name} was written outside a kernel: its element {element} changed, "
                    "and no kernel stored it\n"
                    "hint: compute in the kernel, and store with tl.store"
                )

    def stored(self, tensor: torch.Tensor) -> np.ndarray:
        """Which elements kernels of this run stored, every byte of them: bool, of its shape."""
        region = self.region("", tensor)
        ledger = region.storage.ledger
        if region.extent and region.itemsize < ledger.unit:
            ledger.refine(region.itemsize)
        first = (region.real - region.storage.base) // ledger.unit
        units = region.itemsize // ledger.unit
        # Of each element's units, in a last dimension.
        shape = (*region.shape, units)
        strides = [4 * units * stride for stride in region.strides] + [4]
        done = np.zeros(shape, dtype=bool)
        for kind in ("stored", "updated"):
            if kind in ledger.last:
                last = ledger.last[kind][first:]
                done |= np.lib.stride_tricks.as_strided(last, shape, strides) != 0
        return done.all(axis=-1)

    def line_that_stores_to(self, tensor: torch.Tensor) -> str | None:
        """A line of a kernel that stored to one of the tensor's elements, if one did."""
        region = self.region("", tensor)
        ledger = region.storage.ledger
        first = (region.real - region.storage.base) // ledger.unit
        for kind, verb in (("stored", "writes"), ("updated", "updates")):
            if kind in ledger.last:
                last = ledger.last[kind][first : first + -(-region.extent // ledger.unit)]
                if (access := int(last.max(initial=0))) > 0:
                    return self.sites[self.history.site[access]].describe(
                        *coordinates.ACCESS_CALLS[verb]
                    )
        return None

    def region(self, name: str, tensor: torch.Tensor) -> Region:
        key = tensor.untyped_storage().data_ptr()
        if key not in self._storages:
            self._storages[key] = Storage(tensor)
        return Region(name, tensor, self._storages[key])

    def end_launch(self) -> None:
        """Take the contents that kernels left as given."""
        for region, before in self._remembered:
            if region.storage.ledger.was_written_in(self.history.launch):
                before[:] = region.contents()


def current_watch() -> Watch:
    """The innermost watch that is active; one without poison for launches outside any."""
    return _watches[-1] if _watches else Watch(poison=False)
