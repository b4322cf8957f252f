"""The addresses that interpreted kernels compute with, and the elements that they stand for.

Every tensor argument of a launch gets a window of addresses of its own, far from every other and
from all real memory. So it is known which tensor a pointer was made from, however far a kernel
moved it, and nothing is accessed before the address is found to be an element of that tensor.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from judge.memory.data_races import Ledger

# A window spans 16 TiB: a float32 offset of 2**40 elements still lies in it. The first window lies
# above all addresses that a process can have.
WINDOW_BITS = 44
FIRST_WINDOW = 16

# Views whose elements lie in a larger extent than this are checked by arithmetic, not by a map.
MAX_MAPPED_ELEMENTS = 2**24


class Storage:
    """The memory of one or more tensors. Holds it, so that no other tensor takes its place.

    key: where it is on its own device
    pointer: where it is on the host; a copy, if the device is a GPU
    base: the pointer, rounded down to a multiple of 64
    ledger: who accessed what of it, in units counted from the base
    """

    def __init__(self, tensor: torch.Tensor):
        self.device = tensor.untyped_storage()
        self.key = self.device.data_ptr()
        self.host = self.device
        if self.device.device.type != "cpu":
            with _disable_current_modes():
                self.host = self.device.cpu()
        self.pointer = self.host.data_ptr()
        self.base = self.pointer & ~63
        self.ledger = Ledger(self.device.nbytes(), tensor.element_size())

    def to_host(self) -> None:
        """Take over what is on the GPU."""
        if self.host is not self.device:
            with _disable_current_modes():
                self.host.copy_(self.device)

    def to_device(self) -> None:
        """Give back what kernels stored, to the GPU."""
        if self.host is not self.device:
            with _disable_current_modes():
                self.device.copy_(self.host)


class Region:
    """The elements of one tensor, as a kernel sees them.

    name: what the kernel calls it, without _ptr
    virtual, real: the address of the first element, for the kernel and on the host
    extent: bytes from the first element's first to the last element's last; 0 without elements
    strides: in elements
    dense: every byte of the extent is part of an element
    """

    def __init__(self, name: str, tensor: torch.Tensor, storage: Storage):
        self.name = name
        self.tensor = tensor
        self.storage = storage
        self.itemsize = tensor.element_size()
        self.shape = tuple(tensor.shape)
        self.strides = tuple(tensor.stride())
        self.numel = math.prod(self.shape)
        self.real = storage.pointer + tensor.storage_offset() * self.itemsize
        last = sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        self.extent = (last + 1) * self.itemsize if self.numel else 0
        self.dense, self._nested = self._layout()
        self._map: np.ndarray | None = None
        # data_ptr() of a tensor without elements is 0, wherever it lies.
        self.move(tensor.data_ptr() or self.real)

    def move(self, virtual: int) -> None:
        """Let the first element be at this address for kernels."""
        self.virtual = virtual
        self.end = virtual + self.extent
        self.shift = np.uint64((virtual - self.real) & (2**64 - 1))
        self.origin = np.uint64(virtual - (self.real - self.storage.base))

    def contents(self) -> np.ndarray:
        """The bytes of the extent as they are now, not a copy of them."""
        if not self.extent:
            return np.empty(0, dtype=np.uint8)
        self.storage.to_host()
        memory = (ctypes.c_uint8 * self.extent).from_address(self.real)
        return np.frombuffer(memory, dtype=np.uint8)

    def _layout(self) -> tuple[bool, bool]:
        """Whether there are no gaps, and whether each stride steps over all that lies inside it."""
        covered, nested, dense = 1, True, True
        for stride, size in sorted(zip(self.strides, self.shape, strict=True)):
            if size > 1 and stride > 0:
                dense = dense and stride <= covered
                nested = nested and stride >= covered
                covered += (size - 1) * stride
        return dense, nested

    def holds(self, offset: np.ndarray, size: int) -> np.ndarray:
        """Which accesses of `size` bytes, int64 bytes from the first element, are of its elements.

        An access that is not aligned to its size is of none: a GPU would fault.
        """
        aligned = (offset + self.real) & (size - 1) == 0
        inside = aligned & (offset >= 0) & (offset <= self.extent - size)
        if not self.dense and inside.any():
            first = offset[inside] // self.itemsize
            last = (offset[inside] + (size - 1)) // self.itemsize
            good = self._contains(first)
            for step in range(1, int((last - first).max()) + 1):
                good &= self._contains(np.minimum(first + step, last))
            inside[inside] = good
        return inside

    def _contains(self, element: np.ndarray) -> np.ndarray:
        if self.extent // self.itemsize <= MAX_MAPPED_ELEMENTS:
            if self._map is None:
                self._map = np.zeros(self.extent // self.itemsize, dtype=bool)
                np.lib.stride_tricks.as_strided(self._map, self.shape, self.strides)[...] = True
            return self._map[element]
        if not self._nested:
            return np.ones(element.shape, dtype=bool)
        rest = element.copy()
        for stride, size in self._descending():
            if stride:
                rest -= np.minimum(rest // stride, size - 1) * stride
        return rest == 0

    def _descending(self) -> list[tuple[int, int]]:
        return sorted(zip(self.strides, self.shape, strict=True), reverse=True)

    def coordinates(self, element: np.ndarray) -> list[np.ndarray | None]:
        """The index along each dimension of elements counted in memory from the first one.

        Elements past the end or before the beginning get indices out of the range of the outermost
        dimension, those in a gap of an inner one. None along dimensions of stride 0.
        """
        # The stride of a dimension of size 1 says how far the next row is, if there were one.
        inside, rest = self._divide(element, [d for d, size in enumerate(self.shape) if size > 1])
        found, _ = self._divide(element, range(len(self.shape)))
        own = rest == 0
        for index, size in zip(inside, self.shape, strict=True):
            own &= (index >= 0) & (index < size)
        return [
            np.where(own, near, far) if stride else None
            for near, far, stride in zip(inside, found, self.strides, strict=True)
        ]

    def _divide(
        self, element: np.ndarray, dims: Iterable[int]
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """The index along some dimensions, 0 along the others, and what remains."""
        found = [np.zeros_like(element) for _ in self.shape]
        for dim in sorted(dims, key=lambda d: (self.strides[d], self.shape[d]), reverse=True):
            if self.strides[dim]:
                found[dim] = element // self.strides[dim]
                element = element - found[dim] * self.strides[dim]
        return found, element


class AddressSpace:
    """The addresses of one launch: its windows, and the real ranges of tensors known besides."""

    def __init__(self, known: list[Region]):
        self.windows: dict[int, Region] = {}
        self._known = known

    def place(self, region: Region) -> None:
        """Give a tensor argument a window. Its address keeps its alignment, up to 256 bytes."""
        number = FIRST_WINDOW + len(self.windows)
        # No two windows lie a power of two apart: a pointer that is far off lands in no tensor.
        scattered = (number * 0x9E3779B97F4A7C15 >> 16) % 2 ** (WINDOW_BITS - 2)
        middle = (number << WINDOW_BITS) + 2 ** (WINDOW_BITS - 1) + (scattered & ~0xFFF)
        region.move(middle + (region.real & 0xFF))
        self.windows[number] = region

    def split(self, addresses: np.ndarray) -> list[tuple[Region | None, np.ndarray]]:
        """The lanes (their numbers) of each region that these addresses, uint64, lie in."""
        number = addresses >> np.uint64(WINDOW_BITS)
        parts = []
        for window in np.unique(number):
            lanes = np.flatnonzero(number == window)
            region = self.windows.get(int(window))
            parts += [(region, lanes)] if region else self._split_known(addresses, lanes)
        return parts

    def _split_known(
        self, addresses: np.ndarray, lanes: np.ndarray
    ) -> list[tuple[Region | None, np.ndarray]]:
        parts = []
        for region in self._known:
            theirs = addresses[lanes]
            inside = (theirs >= np.uint64(region.virtual)) & (theirs < np.uint64(region.end))
            if inside.any():
                parts.append((region, lanes[inside]))
                lanes = lanes[~inside]
        return [*parts, (None, lanes)] if lanes.size else parts
