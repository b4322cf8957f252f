"""The memory that timed calls read: no call finds an address with the contents that it had before.

A subject that remembers results by address, or by call, then returns a wrong one, and the check of
what timed calls returned sees it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from judge.core.tensors import map_tensors, tensors

# Contents and places of the inputs, the most first: the first pair for which memory suffices.
CONTENTS_AND_PLACES = ((3, 3), (2, 2), (2, 1))
MEMORY_DIVISOR = 3


class Buffers:
    """Copies of a call's inputs: `contents` are given to nobody, `places` are filled for calls.

    inputs: the arguments, tensors at any depth of tuples and lists; or a function that makes them,
        called with 0, 1, 2, ...: all sets of one geometry
    free_bytes: memory that may be allocated; a third of it is used at most, but at least two sets

    From given arguments other contents are made by `vary`. Where that gives invalid arguments
    (offsets that must increase, permutations), give a function.
    """

    def __init__(self, inputs: tuple | Callable[[int], tuple], free_bytes: int):
        make = inputs if callable(inputs) else None
        first = make(0) if make else tuple(inputs)
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
        """Gives a content numbers in an order that no call has seen. Returns which content."""
        if self._make:
            self.contents[-1] = self._make(self._made)
        else:
            redraw(self.contents[-1], self.contents[0], self._made)
        self._made += 1
        return len(self.contents) - 1

    def fill(self, place: int, content: int) -> tuple:
        """Arguments at this place, counted modulo the places, holding this content."""
        target = self.places[place % len(self.places)]
        source = self.contents[content]
        pairs = zip(_storages(target).values(), _storages(source).values(), strict=True)
        for written, read in pairs:
            _bytes(written).copy_(_bytes(read))
        for tensor in tensors(target):
            tensor.grad = None
        return target


def copy(arguments: tuple) -> tuple:
    """The same arguments in new memory: strides, offsets and shared storages are kept."""
    storages = {pointer: storage.clone() for pointer, storage in _storages(arguments).items()}

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        storage = storages.get(tensor.untyped_storage().data_ptr())
        if storage is None:
            return torch.empty_like(tensor)
        made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        made.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
        return made.requires_grad_(tensor.requires_grad)

    return map_tensors(moved, arguments)


def vary(arguments: tuple, number: int, of: int) -> tuple:
    """Change the contents of arguments in place, to those of set `number` of `of`; returns them.

    Each tensor is rolled along its first dimension that is longer than 1, and then its first part
    there is overwritten with its second. So all values stay ones that occurred (indices in range,
    variances positive), rows that belong together stay together, and sums and histograms change.
    """
    for tensor in tensors(arguments):
        if (dim := _varied(tensor)) is None:
            continue
        with torch.no_grad():
            size = tensor.shape[dim]
            rolled = tensor.roll(max(1, number * size // of), dim)
            part = max(1, size // (of + 1))
            rolled.narrow(dim, 0, part).copy_(rolled.narrow(dim, part, part).clone())
            tensor.copy_(rolled)
    return arguments


def redraw(arguments: tuple, source: tuple, seed: int) -> None:
    """Change the contents of arguments in place, to rows of the source drawn with repetition.

    Rows are what lies along the dimension that `vary` rolls; those that belong together stay so.
    """
    for tensor, drawn_from in zip(tensors(arguments), tensors(source), strict=True):
        if (dim := _varied(tensor)) is None:
            continue
        size, generator = tensor.shape[dim], torch.Generator(tensor.device).manual_seed(seed)
        rows = torch.randint(size, (size,), device=tensor.device, generator=generator)
        with torch.no_grad():
            tensor.copy_(drawn_from.index_select(dim, rows))


def _varied(tensor: torch.Tensor) -> int | None:
    """The first dimension longer than 1; None where no element may be changed on its own."""
    if tensor.numel() == 0 or 0 in tensor.stride():
        return None
    return next((dim for dim, size in enumerate(tensor.shape) if size > 1), None)


def snapshot(returned: object) -> object:
    """What a call returned, in memory that no later call can reach."""
    return map_tensors(lambda tensor: tensor.detach().clone(), returned)


def poison(returned: object) -> None:
    """Overwrite what a call returned: who gets that memory next finds no answer in it."""
    for storage in _storages(returned).values():
        _bytes(storage).fill_(0xFF)


def _storages(tree: object) -> dict[int, torch.UntypedStorage]:
    """The storages that hold anything, by address, each once, in the order of the tensors."""
    storages = (tensor.untyped_storage() for tensor in tensors(tree))
    return {storage.data_ptr(): storage for storage in storages if storage.nbytes()}


def _bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    tensor = torch.empty(0, dtype=torch.uint8, device=storage.device)
    return tensor.set_(storage, 0, (storage.nbytes(),), (1,))
