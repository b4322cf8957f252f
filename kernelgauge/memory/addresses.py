"""The addresses that interpreted kernels compute with, and the elements that they stand for.

Every tensor argument of a launch gets a window of virtual addresses, far from every other window
and from all real memory. The window of a pointer therefore tells which tensor it was derived from,
however far a kernel moved it, and no memory is touched before the address is known to be valid.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from kernelgauge.memory.data_races import Ledger

# A window spans 16 TiB, so an offset of 2**40 float32 elements stays in it. The first window is
# above every address that a process can have.
WINDOW_BITS = 44
FIRST_WINDOW = 16

# Views with gaps whose extent has more elements than this are checked by arithmetic, not by a map.
MAX_MAPPED_ELEMENTS = 2**24


class Storage:
    """The memory of one or more tensors, kept alive so that no other tensor is allocated there.

    device, host: the storage, and its copy on the CPU; the same one if the tensors are on the CPU
    key: address on the tensors' own device
    pointer: address on the host
    base: the pointer, rounded down to a multiple of 64
    ledger: the last accesses, in units counted from the base
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
        """Copy the contents from the GPU to the host, if they are on a GPU."""
        if self.host is not self.device:
            with _disable_current_modes():
                self.host.copy_(self.device)

    def to_device(self) -> None:
        """Copy what kernels stored on the host back to the GPU, if the tensors are on one."""
        if self.host is not self.device:
            with _disable_current_modes():
                self.device.copy_(self.host)


class Region:
    """The elements of one tensor, as a kernel sees them.

    name: the kernel's parameter, without _ptr
    virtual, real: address of the first element, for the kernel and on the host
    extent: bytes from the beginning of the first element to the end of the last; 0 if there is none
    end: the virtual address after the last element
    strides: in elements
    dense: whether every byte of the extent belongs to an element
    """

    def __init__(self, name: str, tensor: torch.Tensor, storage: Storage):
        self.name = name
        self.tensor = tensor
        self.storage = storage
        self.dtype = tensor.dtype
        self.itemsize = tensor.element_size()
        self.shape = tuple(tensor.shape)
        self.strides = tuple(tensor.stride())
        self.numel = math.prod(self.shape)
        self.real = storage.pointer + int(tensor.storage_offset()) * self.itemsize
        last = sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        self.extent = (last + 1) * self.itemsize if self.numel else 0
        self.dense, self._nested = self._layout()
        self._map: np.ndarray | None = None
        # data_ptr() of a tensor without elements is 0, wherever the tensor is.
        self.move(tensor.data_ptr() or self.real)

    def move(self, virtual: int) -> None:
        """Put the first element at this address for kernels."""
        self.virtual = virtual
        self.end = virtual + self.extent
        self.shift = np.uint64((virtual - self.real) & (2**64 - 1))
        self.origin = np.uint64(virtual - (self.real - self.storage.base))

    def offsets(self, pointers: np.ndarray) -> np.ndarray:
        """Return how many bytes behind the first element the kernel's pointers lie, as int64."""
        return (pointers - np.uint64(self.virtual)).view(np.int64)

    def elements(self, pointers: np.ndarray) -> np.ndarray:
        """Return the offsets of the kernel's pointers in elements, as int64."""
        return self.offsets(pointers) // self.itemsize

    def contents(self) -> np.ndarray:
        """Return the current bytes of the extent; not a copy."""
        if not self.extent:
            return np.empty(0, dtype=np.uint8)
        self.storage.to_host()
        memory: Any = (ctypes.c_uint8 * self.extent).from_address(self.real)
        return np.frombuffer(memory, dtype=np.uint8)

    def _layout(self) -> tuple[bool, bool]:
        """Return whether there are no gaps, and whether each stride spans the dimensions inside."""
        covered, nested, dense = 1, True, True
        for stride, size in sorted(zip(self.strides, self.shape, strict=True)):
            if size > 1 and stride > 0:
                dense = dense and stride <= covered
                nested = nested and stride >= covered
                covered += (size - 1) * stride
        return dense, nested

    def holds(self, offset: np.ndarray, size: int) -> np.ndarray:
        """Return which accesses, of `size` bytes each, are aligned and touch only elements.

        A GPU faults on an access that is not aligned to its size.

        offset: int64, bytes from the first element
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
        for stride, size in sorted(zip(self.strides, self.shape, strict=True), reverse=True):
            if stride:
                rest -= np.minimum(rest // stride, size - 1) * stride
        return rest == 0

    def coordinates(self, element: np.ndarray) -> list[np.ndarray | None]:
        """Return the index along each dimension of elements, counted in memory from the first.

        Elements past the end or before the beginning get indices out of the range of the outermost
        dimension, those in a gap of an inner dimension out of the range of that one. None for
        dimensions of stride 0.
        """
        # The stride of a dimension of size 1 tells how far away the next row would be.
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
        """Return the index along some dimensions, 0 along the others, and the remainder."""
        found = [np.zeros_like(element) for _ in self.shape]
        for dim in sorted(dims, key=lambda d: (self.strides[d], self.shape[d]), reverse=True):
            if self.strides[dim]:
                found[dim] = element // self.strides[dim]
                element = element - found[dim] * self.strides[dim]
        return found, element


class AddressSpace:
    """The addresses that are valid in one launch.

    windows: the tensor arguments, by number of their window
    known: tensors that kernels may also reach by their real addresses
    """

    def __init__(self, known: list[Region]):
        self.windows: dict[int, Region] = {}
        self._known = known

    def place(self, region: Region) -> None:
        """Give a tensor argument a window. Its address stays the same modulo 256."""
        number = FIRST_WINDOW + len(self.windows)
        # No two windows begin a power of two apart, so a pointer that is far off hits no tensor.
        scattered = (number * 0x9E3779B97F4A7C15 >> 16) % 2 ** (WINDOW_BITS - 2)
        middle = (number << WINDOW_BITS) + 2 ** (WINDOW_BITS - 1) + (scattered & ~0xFFF)
        region.move(middle + (region.real & 0xFF))
        self.windows[number] = region

    def split(self, addresses: np.ndarray) -> list[tuple[Region | None, np.ndarray]]:
        """Return each region that some of these uint64 addresses point into, and their positions.

        The region is None for addresses that belong to no tensor.
        """
        number = addresses >> np.uint64(WINDOW_BITS)
        parts: list[tuple[Region | None, np.ndarray]] = []
        for window in np.unique(number):
            lanes = np.flatnonzero(number == window)
            region = self.windows.get(int(window))
            parts += [(region, lanes)] if region else self._split_known(addresses, lanes)
        return parts

    def _split_known(
        self, addresses: np.ndarray, lanes: np.ndarray
    ) -> list[tuple[Region | None, np.ndarray]]:
        parts: list[tuple[Region | None, np.ndarray]] = []
        for region in self._known:
            theirs = addresses[lanes]
            inside = (theirs >= np.uint64(region.virtual)) & (theirs < np.uint64(region.end))
            if inside.any():
                parts.append((region, lanes[inside]))
                lanes = lanes[~inside]
        return [*parts, (None, lanes)] if lanes.size else parts
