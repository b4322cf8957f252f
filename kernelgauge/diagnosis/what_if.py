"""A wrong result, and the means to compute what it would be if something were different."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from kernelgauge.core.arguments import Arguments
from kernelgauge.core.dtypes import rounds
from kernelgauge.diagnosis.wrong_result import Mistake
from kernelgauge.words.fault import Note

Tensors = Mapping[str, torch.Tensor]

# What computing a mistake may raise if the mistake is impossible in this case.
IMPOSSIBLE = (RuntimeError, IndexError, ValueError, TypeError, ArithmeticError)


class Contradicted(ValueError):
    """Another result of the same call is not what the mistake would make it."""


@dataclass(frozen=True)
class WhatIf:
    """The call whose result is wrong, ready to be evaluated with other arguments.

    function: the reference as it is written, which tells puzzles apart
    reference: returns all results in float64, for any arguments
    arguments: what the subject was called with, on the CPU
    defaults: the default values of its parameters, by name
    blocks: the integers that the kernels were given as constexprs
    number: which result of the call is wrong
    matches: for each result, a function that says whether a tensor is what the subject returned
    """

    function: Callable
    reference: Callable[[Arguments], Sequence[torch.Tensor]]
    arguments: Arguments
    defaults: Mapping[str, object]
    blocks: Sequence[int]
    number: int
    matches: Sequence[Callable[[torch.Tensor], bool]]

    def mistake(self, cause: Note, given: Note | None = None, /, **values: object) -> Mistake:
        """Return the mistake of using these values for the arguments of these names."""
        changed = self.arguments.replaced(values)
        return Mistake(cause, lambda: self.evaluate(changed), given)

    def evaluate(self, arguments: Arguments) -> torch.Tensor:
        """Return the result in question for other arguments. Raises Contradicted."""
        return self.select(self.reference(arguments))

    def select(self, results: Sequence[torch.Tensor | None]) -> torch.Tensor:
        """Return the one in question of the results that a mistake would give.

        None stands for another one that the mistake leaves right. Raises Contradicted.
        """
        for number, matches in enumerate(self.matches):
            other = results[number]
            if number != self.number and other is not None and not matches(other):
                raise Contradicted
        own = results[self.number]
        assert own is not None
        return own

    def shape(self, tensors: Tensors) -> torch.Size | None:
        """Return the result's shape for these inputs, which may be meta tensors."""
        try:
            return self.reference(self.arguments.replaced(tensors))[self.number].shape
        except IMPOSSIBLE:
            return None

    @property
    def numbers(self) -> Tensors:
        """The tensors that hold real or complex numbers rather than indices."""
        return {n: x for n, x in self.arguments.tensors.items() if rounds(x.dtype)}
