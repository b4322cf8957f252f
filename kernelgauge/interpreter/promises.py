"""What a kernel promises the compiler, checked against the values: tl.multiple_of and tl.assume.

A compiled kernel relies on them without a look. tl.max_contiguous and tl.max_constancy are not
checked: kernels make them of lanes whose values nobody uses, as Triton's tutorials do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl

from kernelgauge.core.verdict import Wrong
from kernelgauge.words.fault import Fault, note


class FalsePromise(Wrong):
    """A promise that does not hold for the values at hand."""


def check_multiples(stock: Callable) -> Callable:
    """Let TensorHandle.set_attr check tl.multiple_of. The result raises FalsePromise."""

    def set_attr(handle: Any, name: str, values: Sequence[int]) -> None:
        if name == "tt.divisibility" and not isinstance(handle.dtype.scalar, tl.pointer_type):
            _check_multiples(handle.data, values)
        stock(handle, name, values)

    return set_attr


def _check_multiples(data: np.ndarray, values: Sequence[int]) -> None:
    # The promise is of the first element of each run of neighbours, and the first of all is one.
    firsts = [data.take(0, axis) for axis in range(data.ndim)] if data.size > 1 else [data]
    for first, factor in zip(firsts, values, strict=True):
        if (wrong := first[first % factor != 0]).size:
            said = note("no-multiple", value=int(wrong.flat[0]), factor=int(factor))
            raise FalsePromise(Fault("false-promise", (said,), remedy=note("promise-what-holds")))


def check_assumption(builder: Any, condition: Any) -> None:
    """Replace Triton's own check, which asserts. Raises FalsePromise."""
    if not np.all(condition.data):
        raise FalsePromise(
            Fault("false-promise", (note("assumption-fails"),), remedy=note("promise-what-holds"))
        )
