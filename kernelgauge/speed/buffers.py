"""Memory for the inputs of timed calls, in which the same address comes back with other contents.

A subject that caches its results by address, or returns its first result again, therefore returns a
wrong one, and the check of what the timed calls returned catches it.
"""

from __future__ import annotations

from collections.abc import Callable, Container

import torch

from kernelgauge.core.dtypes import rounds
from kernelgauge.core.tensors import map_tensors, tensors

# How many contents and places of the inputs there are: the first pair that fits into memory.
CONTENTS_AND_PLACES = ((3, 3), (2, 2), (2, 1))
MEMORY_DIVISOR = 3


class Buffers:
    """Several contents for a call's inputs, and places in memory to call with them.

    inputs: the arguments, with tensors at any depth of tuples and lists; or a function that makes
        them, called with 0, 1, 2, ..., which always returns the same geometry
    free_bytes: memory that may be allocated; at most a third is used, but at least for two sets
    contents: sets of arguments that are only copied from
    places: sets of arguments that `fill` overwrites and returns

    Given arguments are turned into further contents by `vary`. Pass a function where that would
    make them invalid (permutations, offsets that must increase).
    """

    def __init__(self, inputs: tuple | Callable[[int], tuple], free_bytes: int):
        make = inputs if callable(inputs) else None
        first = inputs(0) if callable(inputs) else tuple(inputs)
        size = sum(storage.nbytes() for storage in _storages(first).values())
        for contents, places in CONTENTS_AND_PLACES:
            if (contents - 1 + places) * size <= free_bytes / MEMORY_DIVISOR:
                break
        self.contents = [first]
        for number in range(1, contents):
            self.contents.append(make(number) if make else vary(copy(first), number, contents))
        self.places = [copy(first) for _ in range(places)]
        self._make, self._made = make, contents

    def renew(self) -> int:
        """Replace the last content with one that no call has seen. Returns its index."""
        if self._make:
            self.contents[-1] = self._make(self._made)
        else:
            redraw(self.contents[-1], self.contents[0], self._made)
        self._made += 1
        return len(self.contents) - 1

    def fill(self, place: int, content: int) -> tuple:
        """Copy a content into a place (modulo their number), and return the arguments there."""
        target = self.places[place % len(self.places)]
        source = self.contents[content]
        pairs = zip(_storages(target).values(), _storages(source).values(), strict=True)
        for written, read in pairs:
            _bytes(written).copy_(_bytes(read))
        for tensor in tensors(target):
            tensor.grad = None
        return target


def copy(arguments: tuple) -> tuple:
    """Copy arguments into new memory, with their strides, offsets and shared storages."""
    storages = {pointer: storage.clone() for pointer, storage in _storages(arguments).items()}

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        storage = storages.get(tensor.untyped_storage().data_ptr())
        if storage is None:
            return torch.empty_like(tensor)
        made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        made.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
        return made.requires_grad_(tensor.requires_grad)

    copied = map_tensors(moved, arguments)
    assert isinstance(copied, tuple)
    return copied


def vary(arguments: tuple, number: int, of: int) -> tuple:
    """Change arguments in place into content `number` of `of`, and return them.

    Each tensor is rolled along its first dimension longer than 1, and the first part of it is then
    overwritten with the second. So every value still is one of the original values (an index stays
    in range, a variance positive), rows that belong together stay together, and sums and histograms
    change.
    """
    for tensor in tensors(arguments):
        if (dim := _varied_dim(tensor)) is None:
            continue
        with torch.no_grad():
            size, tensor = tensor.shape[dim], _movable(tensor)
            rolled = tensor.roll(max(1, number * size // of), dim)
            part = max(1, size // (of + 1))
            rolled.narrow(dim, 0, part).copy_(rolled.narrow(dim, part, part).clone())
            tensor.copy_(rolled)
    return arguments


def redraw(arguments: tuple, source: tuple, seed: int) -> None:
    """Overwrite arguments with rows of the source, drawn with replacement.

    A row is a slice along the dimension that `vary` rolls; rows that belong together stay together.
    """
    for tensor, drawn_from in zip(tensors(arguments), tensors(source), strict=True):
        if (dim := _varied_dim(tensor)) is None:
            continue
        size, generator = tensor.shape[dim], torch.Generator(tensor.device).manual_seed(seed)
        rows = torch.randint(size, (size,), device=tensor.device, generator=generator)
        with torch.no_grad():
            _movable(tensor).copy_(_movable(drawn_from).index_select(dim, rows))


def redrawn(arguments: tuple, kept: Container[int]) -> Callable[[int], tuple]:
    """Return a function that makes contents for `Buffers`, 0 being the arguments themselves.

    kept: positions of arguments that no content changes, since other values would be invalid
    """

    def make(number: int) -> tuple:
        if number == 0:
            return arguments
        made = copy(arguments)
        redraw(
            tuple(x for at, x in enumerate(made) if at not in kept),
            tuple(x for at, x in enumerate(arguments) if at not in kept),
            number,
        )
        return made

    return make


def _movable(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor, or the bytes of 8-bit floats, which torch does not roll on a GPU."""
    return tensor.view(torch.uint8) if rounds(tensor.dtype) and tensor.itemsize == 1 else tensor


def _varied_dim(tensor: torch.Tensor) -> int | None:
    """Return the first dimension longer than 1; None if elements share memory or there are none."""
    if tensor.numel() == 0 or 0 in tensor.stride():
        return None
    return next((dim for dim, size in enumerate(tensor.shape) if size > 1), None)


def snapshot(returned: object) -> object:
    """Copy what a call returned into memory that no later call can reach."""
    return map_tensors(lambda tensor: tensor.detach().clone(), returned)


def poison(returned: object) -> None:
    """Overwrite what a call returned, so that no later call finds the answer in freed memory."""
    for storage in _storages(returned).values():
        _bytes(storage).fill_(0xFF)


def _storages(tree: object) -> dict[int, torch.UntypedStorage]:
    """Return the non-empty storages by address, each once, in the order of the tensors."""
    storages = (tensor.untyped_storage() for tensor in tensors(tree))
    return {storage.data_ptr(): storage for storage in storages if storage.nbytes()}


def _bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    tensor = torch.empty(0, dtype=torch.uint8, device=storage.device)
    return tensor.set_(storage, 0, (storage.nbytes(),), (1,))
