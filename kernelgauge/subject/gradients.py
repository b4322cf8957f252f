"""A differentiable function as one call, so that its backward pass is graded with it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

import torch
from torch.utils._pytree import tree_leaves

from kernelgauge.core.verdict import Wrong
from kernelgauge.words.fault import Fault, note


class Differentiable:
    """A function of tensors, called together with its backward pass.

    Called with `dout`, the gradient of its only result, it returns (out, gradient of each
    floating-point positional input); without `dout`, (out,). Raises Wrong if autograd finds no
    gradient.

    between: whether another forward pass, of ones, runs before the backward pass
    keep: whether to note, in `kept`, the tensors that the graph behind the last result holds
    """

    def __init__(self, function: Callable):
        functools.update_wrapper(self, function)
        self.function = function
        self.keep = self.between = False
        self.kept: list[torch.Tensor] = []

    def __call__(
        self, *inputs: object, dout: torch.Tensor | None = None, **options: object
    ) -> tuple[object, ...]:
        if dout is None:
            return (self.function(*inputs, **options),)
        leaves = [leaf(value) for value in inputs]
        out = self.function(*leaves, **options)
        if not isinstance(out, torch.Tensor) or out.grad_fn is None:
            remedy = note("return-what-apply-returns")
            raise Wrong(Fault("wrong-form", (note("no-backward-pass"),), remedy=remedy))
        self.kept = saved_tensors(out) if self.keep else []
        if self.between:
            self.function(*map(ones, leaves), **options)
        named = dict(zip(inspect.signature(self.function).parameters, leaves, strict=False))
        given = {n: x for n, x in named.items() if isinstance(x, torch.Tensor) and x.requires_grad}
        gradients = torch.autograd.grad(out, list(given.values()), dout, allow_unused=True)
        for parameter, gradient in zip(given, gradients, strict=True):
            if gradient is None:
                said = note("no-gradient", parameter=parameter)
                raise Wrong(Fault("wrong-form", (said,), tensor=parameter))
        return (out.detach(), *gradients)


def leaf(value: object) -> object:
    """Return a floating-point tensor as a leaf that requires a gradient; other values stay."""
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().requires_grad_()
    return value


def ones(value: object) -> object:
    """Return ones in place of a leaf; other values stay."""
    if isinstance(value, torch.Tensor) and value.requires_grad:
        return torch.ones_like(value).requires_grad_()
    return value


def saved_tensors(out: torch.Tensor) -> list[torch.Tensor]:
    """Return the tensors that the graph behind `out` holds, saved or as attributes of a ctx."""
    found: list[torch.Tensor] = []
    seen, nodes = set(), [out.grad_fn]
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
