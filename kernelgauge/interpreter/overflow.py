"""Integer overflow in interpreted kernels: an error inside `overflow_errors`, else it wraps around.

The options of the interpreter are private names of Triton.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import interpreter_builder

from kernelgauge.core.verdict import Wrong
from kernelgauge.words.fault import Fault, note

_OPERATIONS = {"add": (np.add, "+"), "sub": (np.subtract, "-"), "mul": (np.multiply, "*")}


class IntegerOverflow(Wrong):
    """A sum or product that does not fit its integer type, inside `overflow_errors`."""


def set_option(name: str, value: object) -> None:
    """Set an option of the interpreter, which keeps them in a frozen dataclass."""
    object.__setattr__(interpreter_builder.options, name, value)


@contextlib.contextmanager
def overflow_errors() -> Iterator[None]:
    """In the body, raise IntegerOverflow where integers of up to 32 bits overflow in a kernel.

    Outside they wrap around, as on a GPU. So they do inside with `sanitize_overflow=False`, as in
    `tl.add(x, y, sanitize_overflow=False)`, of which `tl.rand` is made, and in `tl.sum`.
    """
    before = interpreter_builder.options.sanitize_overflow
    set_option("sanitize_overflow", True)
    try:
        yield
    finally:
        set_option("sanitize_overflow", before)


def check_overflow(semantic: Any, left: tl.tensor, right: tl.tensor, operation: Any) -> None:
    """Replace Triton's own check, which never raises. Raises IntegerOverflow.

    operation: the method add, sub or mul of `semantic`
    """
    dtype, name = left.type.scalar, operation.__name__
    if dtype.int_bitwidth >= 64 or not semantic.builder.options.sanitize_overflow:
        return
    # A product of two uint32 fits only uint64, a difference of two uint32 only int64.
    exact = np.uint64 if dtype.name == "uint32" and name == "mul" else np.int64
    compute, sign = _OPERATIONS[name]
    a, b = np.broadcast_arrays(left.handle.data.astype(exact), right.handle.data.astype(exact))
    result = compute(a, b)
    wrong = (result < dtype.get_int_min_value()) | (result > dtype.get_int_max_value())
    if not wrong.any():
        return
    first = tuple(np.argwhere(wrong)[0])
    count = int(np.count_nonzero(wrong))
    said = note(
        "integer-overflow",
        left=int(a[first]),
        sign=sign,
        right=int(b[first]),
        result=int(result[first]),
        dtype=dtype.name,
        count=count,
        of=wrong.size,
    )
    numbers = {"lanes": count, "of": wrong.size}
    raise IntegerOverflow(
        Fault("offset-overflow", (said,), numbers=numbers, remedy=note("convert-operand"))
    )
