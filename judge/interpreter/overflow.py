"""Integer overflow in interpreted kernels: an error where one asks for it, wrapping otherwise."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as interpreter

_SIGNS = {"add": "+", "sub": "-", "mul": "*"}


class IntegerOverflow(ArithmeticError):
    """A sum or product that does not fit its integer type, inside `overflow_errors`."""


def set_option(name: str, value: object) -> None:
    """Options of the interpreter are a frozen dataclass."""
    object.__setattr__(interpreter.interpreter_builder.options, name, value)


@contextlib.contextmanager
def overflow_errors() -> Iterator[None]:
    """In the body, integers of up to 32 bits that overflow in a kernel raise IntegerOverflow.

    Outside they wrap around, as on a GPU. So do, also inside, those of `tl.add(x, y,
    sanitize_overflow=False)` and its like, which `tl.rand` is made of, and sums of `tl.sum`.
    """
    before = interpreter.interpreter_builder.options.sanitize_overflow
    set_option("sanitize_overflow", True)
    try:
        yield
    finally:
        set_option("sanitize_overflow", before)


def check_overflow(semantic, left: tl.tensor, right: tl.tensor, operation) -> None:
    """Stand in for Triton's own check, which never raises. Raises IntegerOverflow."""
    dtype = left.type.scalar
    if dtype.int_bitwidth >= 64 or not semantic.builder.options.sanitize_overflow:
        return
    # A product of two uint32 fits uint64 only, a difference of two int64 only.
    exact = np.uint64 if dtype.name == "uint32" and operation.__name__ == "mul" else np.int64
    compute = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[operation.__name__]
    a, b = np.broadcast_arrays(left.handle.data.astype(exact), right.handle.data.astype(exact))
    result = compute(a, b)
    wrong = (result < dtype.get_int_min_value()) | (result > dtype.get_int_max_value())
    if not wrong.any():
        return
    first = tuple(np.argwhere(wrong)[0])
    raise IntegerOverflow(
        f"{a[first]} {_SIGNS[operation.__name__]} {b[first]} = {result[first]} does not fit "
        f"{dtype.name}: {np.count_nonzero(wrong)} of {wrong.size} values overflow\n"
        "hint: convert one operand first, as in offs.to(tl.int64)"
    )
