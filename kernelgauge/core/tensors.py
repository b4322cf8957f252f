"""Tensors, alone and in nested tuples and lists."""

from __future__ import annotations

from collections.abc import Callable

import torch


def put(target: torch.Tensor, source: torch.Tensor) -> None:
    """Copy the elements of `source` into `target`, each address once where it is expanded."""
    once(target).copy_(once(source, target))


def once(tensor: torch.Tensor, like: torch.Tensor | None = None) -> torch.Tensor:
    """Return the elements of a tensor, each address once where it, or `like`, is expanded."""
    strides = (tensor if like is None else like).stride()
    return tensor[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)]


def storage_of(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's storage, the same for all views of it."""
    return tensor.untyped_storage().data_ptr()


def share_elements(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two views of one storage have bytes in common."""
    marks = torch.zeros(a.untyped_storage().nbytes(), dtype=torch.uint8)

    def of(x: torch.Tensor) -> torch.Tensor:
        strides = (*(stride * x.itemsize for stride in x.stride()), 1)
        return marks.as_strided((*x.shape, x.itemsize), strides, x.storage_offset() * x.itemsize)

    of(a).fill_(1)
    return bool(of(b).any())


def on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Copy to the CPU with the same strides, which `Tensor.cpu` loses if there are gaps."""
    if tensor.device.type == "cpu":
        return tensor
    moved = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    put(moved, tensor.detach())
    return moved.requires_grad_(tensor.requires_grad)


def nbytes(tree: object) -> int:
    """Return the size in bytes of all tensors in a nested tuple or list."""
    return sum(tensor.nbytes for tensor in tensors(tree))


def map_tensors(function: Callable[[torch.Tensor], object], tree: object) -> object:
    """Apply a function to each tensor in nested tuples and lists; other leaves stay."""
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if isinstance(tree, (tuple, list)):
        branches = [map_tensors(function, branch) for branch in tree]
        return branches if isinstance(tree, list) else tuple(branches)
    return tree


def tensors(tree: object) -> list[torch.Tensor]:
    """Return all tensors in nested tuples and lists, in order."""
    found: list[torch.Tensor] = []
    map_tensors(found.append, tree)
    return found


def flat(tree: object) -> tuple:
    """Return the leaves of nested tuples and lists, in order, whatever they are."""
    if isinstance(tree, (tuple, list)):
        return tuple(leaf for branch in tree for leaf in flat(branch))
    return (tree,)
