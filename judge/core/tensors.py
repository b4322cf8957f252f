"""Tensors, alone and in nested tuples and lists."""

from __future__ import annotations

from collections.abc import Callable

import torch


def put(target: torch.Tensor, source: torch.Tensor) -> None:
    """Overwrite a tensor, also one that was expanded: each place of its memory once."""
    once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in target.stride())
    target[once].copy_(source[once])


def on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with its strides, which `Tensor.cpu` does not keep where elements lie apart."""
    if tensor.device.type == "cpu":
        return tensor
    moved = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    put(moved, tensor.detach())
    return moved.requires_grad_(tensor.requires_grad)


def nbytes(returned: object) -> int:
    """Bytes of the tensors in this, however deep."""
    return sum(tensor.nbytes for tensor in tensors(returned))


def map_tensors(function: Callable[[torch.Tensor], object], tree: object) -> object:
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if isinstance(tree, (tuple, list)):
        branches = [map_tensors(function, branch) for branch in tree]
        return branches if isinstance(tree, list) else tuple(branches)
    return tree


def tensors(tree: object) -> list[torch.Tensor]:
    found = []
    map_tensors(found.append, tree)
    return found
