"""Replace what Triton's interpreter computes otherwise than a GPU, and what it computes slowly.

`arithmetic` replaces numbers, `reductions` reductions and scans, `control_flow` the reading of a
kernel's Python, `libdevice` the library of that name; `memoization` saves time. All of them take
the place of private names of Triton; `selftest` tells which have no effect on this version.
"""

from __future__ import annotations

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as interpreter
from triton.backends.nvidia.compiler import CUDAOptions
from triton.language.semantic import TritonSemantic

from judge.interpreter import arithmetic, control_flow, libdevice, memoization, reductions
from judge.interpreter.overflow import check_overflow, set_option

# What is already in the place of Triton's.
_installed: list[object] = []


def install() -> None:
    """Repair the interpreter of this process, which TRITON_INTERPRET has switched on."""
    if _installed:
        return
    for part in (arithmetic, reductions, control_flow, libdevice, memoization):
        part.install()
    set_option("debug", True)
    set_option("sanitize_overflow", False)
    precisions = CUDAOptions.__dataclass_fields__["allowed_dot_input_precisions"].default
    set_option("allowed_dot_input_precisions", precisions)
    TritonSemantic.binary_op_sanitize_overflow_impl = check_overflow
    interpreter._patch_lang_tensor = _patched_lang_tensor(interpreter._patch_lang_tensor)
    interpreter._implicit_cvt = _implicit_cvt(interpreter._implicit_cvt)
    interpreter.InterpretedFunction.run = _quiet(interpreter.InterpretedFunction.run)
    _installed.append(interpreter)


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
