"""Everything that the programs of a run touch, kept for pictures.

A recorded run is not graded. Lanes out of bounds are led to a place of no meaning, and the program
goes on, so that all that the kernel would touch is seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kernelgauge.core.dtypes import dtype_name
from kernelgauge.core.launch import Launch
from kernelgauge.memory.addresses import AddressSpace, Region
from kernelgauge.memory.call_sites import CallSite, Verb
from kernelgauge.memory.coordinates import Access, locate, spacing
from kernelgauge.memory.terms import Term, terms_of

# Of longer runs the beginning is kept, and the rest does not run.
MAX_LANES = 2**20
# No lane is wider than this many bytes.
WIDEST = 16


@dataclass(frozen=True)
class Touched:
    """A tensor that kernels touch.

    name: the kernel's parameter, without _ptr
    strides: in elements
    start: bytes from a 32-byte boundary to its first element
    """

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    itemsize: int
    start: int

    @property
    def numel(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True)
class Touch:
    """What one access of one program touches of one tensor. All arrays are of the tile's shape.

    launch: its number, from 0
    program: its number in the order in which a GPU starts them
    element: int64, elements from the tensor's first to each lane's
    index: for each dimension of `shape` the index of each lane, None for dimensions of stride 0
    shape: the tensor's, or one dimension if the kernel walks it flat
    active: lanes that touch an element
    masked: lanes that the mask turns off and whose place is known
    outside: lanes out of bounds, which would touch what is not the tensor's
    astray: active lanes past the end of a row, or of another inner dimension, by their index
    """

    launch: int
    program: int
    tensor: Touched
    verb: Verb
    site: CallSite
    element: np.ndarray
    index: list[np.ndarray | None]
    shape: tuple[int, ...]
    active: np.ndarray
    masked: np.ndarray
    outside: np.ndarray
    astray: np.ndarray


@dataclass(frozen=True)
class Moment:
    """What a partition of a Gluon kernel does, or an operation that it has issued.

    did: the call, or what the operation is: "wait", "copy", "product"; "goes on" after a wait,
        "ends" for an operation; "reads" or "writes" for a part that one touches
    who: the partition
    line: of the learner's code, for an operation where it was issued
    about: buffers, or a barrier
    number: of the operation, 0 for none
    amount: the phase of a wait, the bytes of an expect, how many are left under way
    phases: how many phases of the barrier are complete afterwards
    """

    did: str
    who: str
    line: int
    about: str = ""
    number: int = 0
    amount: int = 0
    phases: int = 0


@dataclass
class Recording:
    """What a run touched: the `record` of a Watch.

    launches: in order
    touches: in the order in which they happened
    stores: by launch, tensor and line, the first store, and the terms of its address
    ran: the launch, the program and the line of each access, also where its mask is off
    moments: of the program of a Gluon kernel that ran last, and its number
    nowhere: where lanes out of bounds are led to
    """

    launches: list[Launch] = field(default_factory=list)
    touches: list[Touch] = field(default_factory=list)
    stores: dict[tuple[int, str, CallSite], tuple[Access, list[Term]]] = field(default_factory=dict)
    ran: set[tuple[int, int, CallSite]] = field(default_factory=set)
    moments: list[Moment] = field(default_factory=list)
    program: int = 0
    nowhere: np.ndarray = field(default_factory=lambda: np.zeros(WIDEST, dtype=np.uint8))
    _tensors: dict[tuple, Touched] = field(default_factory=dict)
    _lanes: int = 0

    @property
    def is_full(self) -> bool:
        """Whether no more is kept."""
        return self._lanes >= MAX_LANES

    def note(self, space: AddressSpace, program: int, access: Access, outside: np.ndarray) -> None:
        """Keep one access. outside: its lanes that are out of bounds"""
        self._lanes += access.pointers.size
        self.ran.add((len(self.launches) - 1, program, access.site))
        lanes = access.pointers.reshape(-1)
        for region, positions in space.split(lanes):
            if region is None:
                continue
            here = np.zeros(lanes.size, dtype=bool)
            here[positions] = True
            self._note_part(region, program, access, outside, here.reshape(access.mask.shape))

    def _note_part(
        self,
        region: Region,
        program: int,
        access: Access,
        outside: np.ndarray,
        here: np.ndarray,
    ) -> None:
        element = region.elements(access.pointers)
        placed = locate(access, region, element)
        # Only the place of lanes that are evenly spaced means anything where no memory is touched.
        known = here.all() and spacing(element) is not None
        masked = here & ~access.mask if known else np.zeros_like(here)
        active = here & access.mask & ~outside
        astray = np.zeros_like(here)
        if known and placed.shape == region.shape:
            for along, size in zip(placed.index, placed.shape, strict=True):
                if along is not None:
                    astray |= active & ((along < 0) | (along >= size))
        touch = Touch(
            len(self.launches) - 1,
            program,
            self._tensor(region),
            access.verb,
            access.site,
            element,
            placed.index,
            placed.shape,
            active,
            masked,
            here & outside,
            astray,
        )
        if touch.active.any() or touch.outside.any() or touch.masked.any():
            self.touches.append(touch)
        key = touch.launch, region.name, access.site
        if access.verb != "reads" and key not in self.stores:
            self.stores[key] = access, terms_of(access, region)

    def _tensor(self, region: Region) -> Touched:
        """Return the tensor of a region; views of other shapes are other tensors."""
        key = (region.real, region.shape, region.strides, region.tensor.dtype)
        if key not in self._tensors:
            self._tensors[key] = Touched(
                region.name,
                region.shape,
                region.strides,
                dtype_name(region.tensor.dtype),
                region.itemsize,
                region.real % 32,
            )
        return self._tensors[key]
