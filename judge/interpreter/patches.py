"""Repairs to Triton's interpreter, so that it computes what a GPU would, and quickly.

Numbers are repaired in judge.interpreter.arithmetic, reductions in judge.interpreter.reductions, the reading of a kernel's
Python in judge.interpreter.control_flow, libdevice in judge.interpreter.libdevice; judge.interpreter.memoization saves time. All of that
takes the place of private names of Triton; judge.interpreter.selftest tells what has no effect on this version.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as interpreter
from triton.backends.nvidia.compiler import CUDAOptions
from triton.language.semantic import TritonSemantic

_SIGNS = {"add": "+", "sub": "-", "mul": "*"}

# What is already in the place of Triton's.
_installed: list[object] = []


class IntegerOverflow(ArithmeticError):
    """A sum or product that does not fit its integer type, inside `overflow_errors`."""


def install() -> None:
    """Repair the interpreter of this process, which TRITON_INTERPRET has switched on."""
    if _installed:
        return
    from judge.interpreter import arithmetic, control_flow, libdevice, memoization, reductions

    for part in (arithmetic, reductions, control_flow, libdevice, memoization):
        part.install()
    set_option("debug", True)
    set_option("sanitize_overflow", False)
    precisions = CUDAOptions.__dataclass_fields__["allowed_dot_input_precisions"].default
    set_option("allowed_dot_input_precisions", precisions)
    TritonSemantic.binary_op_sanitize_overflow_impl = _check_overflow
    interpreter._patch_lang_tensor = _patched_lang_tensor(interpreter._patch_lang_tensor)
    interpreter._implicit_cvt = _implicit_cvt(interpreter._implicit_cvt)
    interpreter.InterpretedFunction.run = _quiet(interpreter.InterpretedFunction.run)
    _installed.append(interpreter)


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


def _check_overflow(semantic, left: tl.tensor, right: tl.tensor, operation) -> None:
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


def _patched_lang_tensor(stock):
    def patch(tensor, scope) -> None:
        stock(tensor, scope)
        # In Triton 3.6 this fails with NumPy 2.4 and newer, as a scalar is an array of one element.
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    return patch


def _implicit_cvt(stock):
    """Arguments of a kernel: a float or bool is a scalar tensor too, as when compiled."""

    def convert(argument):
        if isinstance(argument, (bool, float)):
            dtype = tl.int1 if isinstance(argument, bool) else tl.float32
            data = np.array([argument], dtype=interpreter._get_np_dtype(dtype))
            return tl.tensor(interpreter.TensorHandle(data, dtype), dtype)
        return stock(argument)

    return convert


def _quiet(run):
    """A GPU gives no warning when a number overflows or is none."""

    def run_quietly(*args, **kwargs):
        with np.errstate(all="ignore"):
            return run(*args, **kwargs)

    return run_quietly


def self_test() -> list[str]:
    """A line for each repair that has no effect on this version of Triton; none if all is well."""
    from judge.interpreter import selftest

    return selftest.missing()
