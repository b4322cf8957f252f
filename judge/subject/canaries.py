"""Tensors between canaries: memory that reads as NaN, and that nobody may change."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch

from judge.core.tensors import put
from judge.core.verdict import Wrong

# Bytes before and after each tensor. On a GPU a last tile that overruns by one row of 16 Ki floats
# still lands in them; in the interpreter nothing gets that far.
CANARY = {"cpu": 2**12, "cuda": 2**16}

# Read as float16, bfloat16, float32 or float64, words of these bytes are NaN, of payloads that no
# arithmetic makes. The first byte is another for each tensor: what a kernel reads past the end of
# one and stores past the end of another is seen.
PATTERN = (0xFF, 0xFF, 0xFF)

FIRST_BYTES = itertools.cycle(range(0xC1, 0xFF))

# Storages above this are neither copied nor put between canaries: huge ones of which a view shows
# little, or of which few programs touch anything.
MAX_COPIED_BYTES = 2**32


@dataclass
class Arena:
    """One tensor's memory, with the canaries around it.

    tensor: the view that subjects see
    filled: whether the launcher gave all of it a value, as torch.zeros does
    """

    buffer: torch.Tensor
    begin: int
    end: int
    tensor: torch.Tensor
    name: str
    first_byte: int
    filled: bool = False

    @classmethod
    def like(cls, tensor: torch.Tensor, name: str) -> Arena:
        """Memory for a tensor of this geometry and alignment, all of it poisoned."""
        size = tensor.element_size()
        extent = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1
        extent = 0 if tensor.numel() == 0 else extent * size
        canary = CANARY[tensor.device.type]
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
        """Take over the elements of the view, and leave the gaps between them poisoned."""
        put(self.tensor, source)

    @property
    def fresh(self) -> torch.Tensor:
        """The bytes that all of the memory held before anybody wrote there."""
        return _pattern(self.buffer.numel(), self.buffer.device, self.first_byte)

    def check(self, before: torch.Tensor | None = None) -> None:
        """Raises Wrong if the canaries changed, or anything at all since `before` was cloned."""
        intact = self.fresh if before is None else before
        beside = (slice(None, self.begin), slice(self.end, None))
        parts = (slice(None),) if before is not None else beside
        if all(torch.equal(self.buffer[part], intact[part]) for part in parts):
            return
        changed = self.buffer != intact
        ahead = int(changed[: self.begin].sum())
        behind = int(changed[self.end :].sum())
        if ahead or behind:
            sides = [f"{ahead} bytes before its beginning"] * bool(ahead)
            sides += [f"{behind} bytes past its end"] * bool(behind)
            raise Wrong(
                f"memory outside {self.name} was overwritten: {' and '.join(sides)}\n"
                "hint: a store is not masked where the last tile ends"
            )
        if before is not None and changed.any():
            raise Wrong(f"the input {self.name} was changed: {int(changed.sum())} bytes differ")


def _pattern(size: int, device: torch.device, first_byte: int) -> torch.Tensor:
    """At least so many bytes that read as NaN."""
    word = torch.tensor((first_byte, *PATTERN), dtype=torch.uint8, device=device)
    return word.repeat(-(-size // len(word)))
