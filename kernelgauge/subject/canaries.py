"""Tensors between canaries: memory that reads as NaN and that no kernel may change."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from kernelgauge.core.tensors import put
from kernelgauge.core.verdict import Wrong
from kernelgauge.words.fault import Fault, note

# Bytes before and after each tensor. On a GPU, even a last tile that overruns by a row of 16 Ki
# floats stays within them. In the interpreter no access gets that far.
CANARY_BYTES = {"cpu": 2**12, "cuda": 2**16}

# Words of these bytes are NaN in float16, bfloat16, float32 and float64, with payloads that no
# arithmetic produces. The first byte differs between tensors, so that copying from beyond the end
# of one to beyond the end of another is noticed.
PATTERN = (0xFF, 0xFF, 0xFF)
FIRST_BYTES = itertools.cycle(range(0xC1, 0xFF))

# Larger storages are neither copied nor put between canaries. A view shows little of such a
# storage, or few programs touch it.
MAX_COPIED_BYTES = 2**32
# What is copied in `uncopied`, where memory is hardly touched.
FEW_BYTES = 2**20

_most = MAX_COPIED_BYTES


def is_huge(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's storage is too large to be copied."""
    return tensor.untyped_storage().nbytes() > _most


@contextlib.contextmanager
def uncopied() -> Iterator[None]:
    """Neither copy nor guard large tensors in the body, for calls of which few programs run."""
    global _most
    _most = FEW_BYTES
    try:
        yield
    finally:
        _most = MAX_COPIED_BYTES


@dataclass
class Arena:
    """The memory of one tensor, with canaries around it.

    buffer: all bytes, canaries included
    begin, end: offsets of the tensor's memory in the buffer, in bytes
    tensor: the view that subjects see
    name: for messages; "" for what the launcher allocated
    filled: whether the launcher gave every element a value, as torch.zeros does
    written: whether torch stored to some of them
    """

    buffer: torch.Tensor
    begin: int
    end: int
    tensor: torch.Tensor
    name: str
    first_byte: int
    filled: bool = False
    written: bool = False

    @classmethod
    def like(cls, tensor: torch.Tensor, name: str) -> Arena:
        """Allocate poisoned memory for a tensor of this shape, layout and alignment."""
        size = tensor.element_size()
        extent = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1
        extent = 0 if tensor.numel() == 0 else extent * size
        canary = CANARY_BYTES[tensor.device.type]
        begin = canary + tensor.data_ptr() % 64
        end = begin + extent
        first_byte = next(FIRST_BYTES)
        buffer = _pattern(end + canary, tensor.device, first_byte)
        placed = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        placed.set_(
            buffer.untyped_storage(), begin // size, tuple(tensor.shape), tuple(tensor.stride())
        )
        return cls(buffer, begin, end, placed, name, first_byte)

    def fill(self, source: torch.Tensor) -> None:
        """Copy the elements of `source`, and leave the gaps between elements poisoned."""
        put(self.tensor, source)

    @property
    def fresh(self) -> torch.Tensor:
        """The bytes of the whole buffer before anything was written to it."""
        return _pattern(self.buffer.numel(), self.buffer.device, self.first_byte)

    def check(self, before: torch.Tensor | None = None) -> None:
        """Raise Wrong if the canaries changed, or any byte since `before` was cloned."""
        intact = self.fresh if before is None else before
        beside = (slice(None, self.begin), slice(self.end, None))
        parts = (slice(None),) if before is not None else beside
        if all(torch.equal(self.buffer[part], intact[part]) for part in parts):
            return
        changed = self.buffer != intact
        ahead = int(changed[: self.begin].sum())
        behind = int(changed[self.end :].sum())
        if ahead or behind:
            sides = {"before": ahead, "behind": behind}
            raise Wrong(
                Fault(
                    "out-of-bounds-store",
                    (note("overwritten-outside", tensor=self.name, **sides),),
                    tensor=self.name,
                    numbers={f"bytes_{side}": count for side, count in sides.items()},
                    remedy=note("mask-the-last-tile"),
                )
            )
        if before is not None and changed.any():
            count = int(changed.sum())
            said = note("input-changed", tensor=self.name, bytes=count)
            numbers = {"bytes": count}
            raise Wrong(Fault("input-changed", (said,), tensor=self.name, numbers=numbers))


def _pattern(size: int, device: torch.device, first_byte: int) -> torch.Tensor:
    """Return at least `size` bytes that read as NaN."""
    word = int.from_bytes((first_byte, *PATTERN), sys.byteorder, signed=True)
    words = torch.full((-(-size // 4),), word, dtype=torch.int32, device=device)
    return words.view(torch.uint8)
