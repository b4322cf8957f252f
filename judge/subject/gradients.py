"""A differentiable function, graded together with the backward pass that it brings along."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

import torch
from torch.utils._pytree import tree_leaves

from judge.core.verdict import Wrong


class Differentiable:
    """Calls a function of tensors, then its backward pass.

    With `dout`, the gradient of its one result, a call gives (out, gradient of each floating-point
    input that is given by position); without it, (out,) alone. Raises Wrong where autograd finds no
    way back.
    """

    def __init__(self, function: Callable):
        functools.update_wrapper(self, function)
        self.function = function
        # Tensors that the graph behind the last result held on to, for whoever asks for it.
        self.keep, self.kept = False, []

    def __call__(self, *inputs, dout: torch.Tensor | None = None, **options):
        if dout is None:
            return (self.function(*inputs, **options),)
        inputs = [leaf(value) for value in inputs]
        out = self.function(*inputs, **options)
        if not isinstance(out, torch.Tensor) or out.grad_fn is None:
            raise Wrong(
                f"{self.__name__} returned a result without a grad_fn: autograd knows no way back\n"
                "hint: return what apply() of your torch.autograd.Function returns"
            )
        self.kept = saved_tensors(out) if self.keep else []
        named = dict(zip(inspect.signature(self.function).parameters, inputs, strict=False))
        leaves = {n: x for n, x in named.items() if isinstance(x, torch.Tensor) and x.requires_grad}
        gradients = torch.autograd.grad(out, list(leaves.values()), dout, allow_unused=True)
        for name, gradient in zip(leaves, gradients, strict=True):
            if gradient is None:
                raise Wrong(f"{self.__name__}: the backward pass gives no gradient for {name}")
        return (out.detach(), *gradients)


def leaf(value: object) -> object:
    """The same value; a floating-point tensor as one that wants a gradient."""
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().requires_grad_()
    return value


def saved_tensors(out: torch.Tensor) -> list[torch.Tensor]:
    """Tensors that torch.autograd.Functions behind `out` hold, saved or as attributes of ctx."""
    found, seen, nodes = [], set(), [out.grad_fn]
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        found += getattr(node, "saved_tensors", ())
        found += [
            x for x in tree_leaves(getattr(node, "__dict__", {})) if isinstance(x, torch.Tensor)
        ]
        nodes += [following for following, _ in node.next_functions]
    return found
