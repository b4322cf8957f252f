"""Patch Triton's interpreter where it computes something else than a GPU, and where it is slow.

`arithmetic`, `reductions`, `control_flow`, `libdevice` and `overflow` define what is computed,
`memoization` and `shortcuts` what saves time. Triton is changed only here, and every name that is
assigned here is a private name of it. `selftest` tells which patches have no effect on the
installed version.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as interpreter
from triton.backends.nvidia.compiler import CUDAOptions
from triton.language.semantic import TritonSemantic

from kernelgauge.interpreter import (
    arithmetic,
    control_flow,
    libdevice,
    memoization,
    overflow,
    promises,
    reductions,
    shortcuts,
)


def _set_index(stock: Callable) -> Callable:
    def patch_lang_tensor(tensor: Any, scope: Any) -> None:
        stock(tensor, scope)
        # In Triton 3.6 this fails with NumPy 2.4 and newer, as a scalar is an array of one element.
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    return patch_lang_tensor


def _convert_scalars(stock: Callable) -> Callable:
    """Make float and bool arguments of a kernel scalar tensors too, as when it is compiled."""

    def implicit_cvt(argument: Any) -> Any:
        if isinstance(argument, (bool, float)):
            dtype = tl.int1 if isinstance(argument, bool) else tl.float32
            return arithmetic.make_tensor(np.array(argument, arithmetic.numpy_dtype(dtype)), dtype)
        return stock(argument)

    return implicit_cvt


def _without_warnings(stock: Callable) -> Callable:
    """Run a kernel without NumPy's warnings: a GPU does not warn of overflow and NaN either."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return stock(*args, **kwargs)

    return run


def _leave_to_tensors(stock: Callable) -> Callable:
    """Let a tensor on the right of a constexpr compute, as when it is compiled.

    Triton's own makes a constexpr that holds the tensor.
    """

    def operate(constant: Any, other: Any) -> Any:
        return NotImplemented if isinstance(other, tl.tensor) else stock(constant, other)

    return operate


def _reflected(function: Callable) -> Callable:
    """Let a plain number stand on the left of a constexpr, which is one too when it is compiled."""

    def operate(constant: tl.constexpr, other: Any) -> tl.constexpr:
        return tl.constexpr(function(other, constant.value))

    return operate


def _part_of_value(constant: tl.constexpr, name: str) -> Any:
    """Return a part of what a constexpr holds, as in DTYPE.primitive_bitwidth when compiled."""
    if name.startswith("__") or name == "value":
        raise AttributeError(name)
    return getattr(constant.value, name)


_function, _builder = interpreter.InterpretedFunction, interpreter.InterpreterBuilder
_OPERANDS, _BROADCAST = "binary_op_type_checking_impl", "broadcast_impl_value"

# The operators of tl.constexpr that have a counterpart in tl.tensor.
_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor")
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_OPERATORS = [f"__{name}__" for name in (*_ARITHMETIC, *_COMPARISONS, "lshift", "rshift")]
# Those that tl.constexpr has only with itself on the left.
_ONE_SIDED = ("mod", "and_", "or_", "xor", "lshift", "rshift")

Patch = tuple[type | ModuleType, str, Callable]

# Owner, name and replacement of everything in Triton that a patch replaces. This module is imported
# before it changes anything, so what a wrapper is given here is Triton's own.
REPAIRS: list[Patch] = [
    *((_builder, *item) for item in arithmetic.BUILDER_METHODS.items()),
    (interpreter.ReduceOps, "apply_impl", reductions.reduce),
    (interpreter.ScanOps, "apply_impl", reductions.scan),
    (TritonSemantic, "binary_op_sanitize_overflow_impl", overflow.check_overflow),
    (
        interpreter.TensorHandle,
        "set_attr",
        promises.check_attributes(interpreter.TensorHandle.set_attr),
    ),
    (_builder, "create_assume", promises.check_assumption),
    (interpreter, "_patch_lang_tensor", _set_index(interpreter._patch_lang_tensor)),
    (interpreter, "_implicit_cvt", _convert_scalars(interpreter._implicit_cvt)),
    (_function, "run", _without_warnings(_function.run)),
    (interpreter, "_patch_lang", memoization.with_aliases(interpreter._patch_lang)),
    (_function, "__call__", memoization.call_device_function),
    *(
        (_builder, name, shortcuts.contiguous(getattr(_builder, name)))
        for name in ("create_atomic_rmw", "create_atomic_cas")
    ),
    *((tl.constexpr, it, _leave_to_tensors(getattr(tl.constexpr, it))) for it in _OPERATORS),
    (tl.constexpr, "__getattr__", _part_of_value),
    *(
        (tl.constexpr, f"__r{name.rstrip('_')}__", _reflected(getattr(operator, name)))
        for name in _ONE_SIDED
    ),
]

# Those that only save time: without them a run is slow, and right.
SHORTCUTS: list[Patch] = [
    *((_builder, *item) for item in arithmetic.FASTER_METHODS.items()),
    (interpreter, "_get_np_dtype", arithmetic.numpy_dtype),
    (interpreter.TensorHandle, "__init__", arithmetic.make_handle),
    (interpreter, "_patch_builtin", memoization.patch_builtin),
    (tl.block_type, "__init__", memoization.share_shapes(tl.block_type.__init__)),
    (tl.tensor, "__init__", memoization.reuse_shapes(tl.tensor.__init__)),
    (tl.block_type, "with_element_ty", shortcuts.with_element_type),
    (_builder, "get_block_ty", shortcuts.block_type),
    (_builder, "create_splat", shortcuts.splat),
    (_builder, "create_broadcast", shortcuts.stretch),
    (_builder, "create_expand_dims", shortcuts.add_axis),
    (_builder, "create_make_range", shortcuts.make_range),
    (TritonSemantic, _OPERANDS, shortcuts.operands(getattr(TritonSemantic, _OPERANDS))),
    (TritonSemantic, _BROADCAST, shortcuts.broadcast(getattr(TritonSemantic, _BROADCAST))),
    *(
        (TritonSemantic, name, shortcuts.elementwise(getattr(TritonSemantic, name)))
        for name in shortcuts.ELEMENTWISE
    ),
    (TritonSemantic, "cast", shortcuts.cast(TritonSemantic.cast)),
    (tl.core, "_unwrap_if_constexpr", shortcuts.unwrap(tl.core._unwrap_if_constexpr)),
]

PATCHES = [*REPAIRS, *SHORTCUTS]


def install() -> None:
    """Patch the interpreter of this process, which runs under TRITON_INTERPRET=1."""
    rewriter = interpreter.FunctionRewriter
    if isinstance(rewriter.ast_transformer, control_flow.AsCompiled):
        return
    for owner, name, replacement in [*PATCHES, *libdevice.replacements()]:
        setattr(owner, name, replacement)
    for name, function in control_flow.FUNCTIONS.items():
        setattr(interpreter, name, function)
    rewriter.ast_transformer = control_flow.AsCompiled(rewriter.ast_transformer)
    _function.rewritten_fn.clear()
    overflow.set_option("debug", True)
    overflow.set_option("sanitize_overflow", False)
    precisions = CUDAOptions.__dataclass_fields__["allowed_dot_input_precisions"].default
    overflow.set_option("allowed_dot_input_precisions", precisions)
