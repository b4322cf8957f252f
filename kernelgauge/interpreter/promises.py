"""What a kernel promises the compiler, checked against the values.

A compiled kernel relies on tl.multiple_of, tl.max_contiguous, tl.max_constancy and tl.assume
without a look. A run of neighbours may begin anew at 0: Triton's tutorials promise contiguity of
indices modulo a size, whose last lanes nobody uses. Of a pointer tl.multiple_of counts bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl

from kernelgauge.core.verdict import Wrong
from kernelgauge.words.fault import Fault, note

# Kernels' addresses are those of the tensors modulo so many bytes, at least.
ALIGNED = 64
# What is said of a promise about runs of neighbours that does not hold.
RUNS = {"tt.contiguity": "not-contiguous-values", "tt.constancy": "not-constant-values"}


class FalsePromise(Wrong):
    """A promise that does not hold for the values at hand."""


def check_attributes(stock: Callable) -> Callable:
    """Let TensorHandle.set_attr check what it is promised. The result raises FalsePromise."""

    def set_attr(handle: Any, name: str, values: Sequence[int]) -> None:
        pointer = isinstance(handle.dtype.scalar, tl.pointer_type)
        if name == "tt.divisibility":
            _check_multiples(handle.data, values, pointer)
        if name in RUNS and handle.data.size > 1:
            step = handle.dtype.scalar.element_ty.primitive_bitwidth // 8 if pointer else 1
            _check_runs(handle.data, values, name, step)
        stock(handle, name, values)

    return set_attr


def _check_runs(data: np.ndarray, values: Sequence[int], name: str, step: int) -> None:
    """Check that neighbours are equal or one step apart, in each run of so many along each axis."""
    for axis, length in enumerate(values):
        numbers = np.moveaxis(data, axis, -1).astype(np.int64)
        here, there = numbers[..., :-1], numbers[..., 1:]
        wrong = there != here + (step if name == "tt.contiguity" else 0)
        if name == "tt.contiguity":
            wrong &= there != 0
        # The last of a run and the first of the next one are no neighbours.
        wrong[..., length - 1 :: length] = False
        if wrong.any():
            at = tuple(np.argwhere(wrong)[0])
            pair = {"value": int(here[at]), "next": int(there[at]), "length": int(length)}
            raise FalsePromise(
                Fault(
                    "false-promise", (note(RUNS[name], **pair),), remedy=note("promise-what-holds")
                )
            )


def _check_multiples(data: np.ndarray, values: Sequence[int], pointer: bool) -> None:
    # The promise is of the first element of each run of neighbours, and the first of all is one.
    firsts = [data.take(0, axis) for axis in range(data.ndim)] if data.size > 1 else [data]
    for first, factor in zip(firsts, values, strict=True):
        rest = first % (math.gcd(factor, ALIGNED) if pointer else factor)
        if rest.any():
            at = tuple(np.argwhere(rest)[0])
            said = note("no-multiple", value=int(first[at]), factor=int(factor))
            if pointer:
                said = note("no-multiple-of-bytes", rest=int(rest[at]), factor=int(factor))
            raise FalsePromise(Fault("false-promise", (said,), remedy=note("promise-what-holds")))


def check_assumption(builder: Any, condition: Any) -> None:
    """Replace Triton's own check, which asserts. Raises FalsePromise."""
    if not np.all(condition.data):
        raise FalsePromise(
            Fault("false-promise", (note("assumption-fails"),), remedy=note("promise-what-holds"))
        )
