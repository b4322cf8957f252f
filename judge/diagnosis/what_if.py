"""A wrong result, and the means to ask what would make it: see mistakes.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from judge.core.arguments import Arguments
from judge.core.dtypes import rounds
from judge.diagnosis.wrong_result import Mistake

Tensors = Mapping[str, torch.Tensor]


# What a mistake that cannot be made in this case may raise.
IMPOSSIBLE = (RuntimeError, IndexError, ValueError, TypeError, ArithmeticError)


class Contradicted(ValueError):
    """Another result of the same call is not what the mistake would make it."""


@dataclass(frozen=True)
class WhatIf:
    """What makes this one of a call's results wrong.

    reference: all results in float64, for any arguments
    arguments: what the subject was called with, on the CPU
    defaults: of the parameters that have one
    blocks: whole numbers that the kernels were given as constexprs
    number: of the result
    results: for each result of the call, whether an alternative is what the subject returned
    """

    reference: Callable[[Arguments], Sequence[torch.Tensor]]
    arguments: Arguments
    defaults: Mapping[str, object]
    blocks: Sequence[int]
    number: int
    results: Sequence[Callable[[torch.Tensor], bool]]

    def mistake(self, cause: str, given: str = "", **values: object) -> Mistake:
        """The result where these arguments are others."""
        changed = self.arguments.replaced(values)
        return Mistake(cause, lambda: self.evaluate(changed), given)

    def evaluate(self, arguments: Arguments) -> torch.Tensor:
        """The result that is asked about. Raises Contradicted."""
        return self.select(self.reference(arguments))

    def select(self, made: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
        """Of the results that a mistake makes, the one that is asked about. Raises Contradicted."""
        for number, is_this in enumerate(self.results):
            other = made[number]
            if number != self.number and other is not None and not is_this(other):
                raise Contradicted
        return made[self.number]

    def shape(self, tensors: Tensors) -> torch.Size | None:
        """The result's shape if these are the inputs; meta tensors will do."""
        try:
            return self.reference(self.arguments.replaced(tensors))[self.number].shape
        except IMPOSSIBLE:
            return None

    @property
    def numbers(self) -> Tensors:
        """The tensors that hold real or complex numbers, not indices."""
        return {n: x for n, x in self.arguments.tensors.items() if rounds(x.dtype)}
