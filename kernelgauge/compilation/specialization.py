"""The arguments of a launch as plain data, for which another process can compile the kernel.

Triton compiles a kernel anew for each combination of argument types and of what it may assume about
the values: whether a pointer or an int is a multiple of 16, whether an int is 1, how many bits it
takes. Here, values that Triton does not distinguish become the same representative, so equal data
mean one compilation. The worker turns the data into arguments again, for Triton's own code to
specialize the kernel by.
"""

from __future__ import annotations

from typing import Any

import torch

from kernelgauge.core.dtypes import dtype_name
from kernelgauge.core.launch import Launch
from kernelgauge.words.fault import Note, note

ALIGNMENT = 16
# AMD's backend addresses tensors of fewer bytes than this with 32-bit offsets.
SMALL_BYTES = 2**31


class CannotPass(TypeError):
    """An argument that no kernel takes, and what to pass instead."""

    def __init__(self, why: Note, remedy: Note):
        super().__init__(why, remedy)
        self.why, self.remedy = why, remedy


def arguments(launch: Launch) -> dict[str, tuple]:
    """Return each argument, by name, as nested tuples of plain values. Raises CannotPass."""
    return {
        name: constant(value, name) if name in launch.constexprs else argument(value, name)
        for name, value in launch.arguments.items()
    }


def argument(value: Any, name: str) -> tuple:
    """Return what specializes a parameter that is not a constexpr. Raises CannotPass."""
    if value is None or isinstance(value, bool):
        return "value", value
    if isinstance(value, int):
        return "value", _representative(value)
    if isinstance(value, float):
        return "value", 2.5
    if isinstance(value, torch.Tensor):
        return _tensor(value, name)
    kind = type(value).__name__
    if kind == "TensorDescriptor":
        layout = (("layout", *_layout(value.layout)),) if hasattr(value, "layout") else ()
        return "descriptor", _tensor(value.base, name), tuple(value.block_shape), *layout
    if isinstance(value, tuple):
        items = tuple(argument(item, name) for item in value)
        return "tuple", items, getattr(value, "_fields", None)
    if kind == "list":
        remedy = note("pass-tuple", name=name)
    elif kind == "dtype":
        remedy = note("pass-triton-dtype", name=name)
    elif kind == "str" or _function(value):
        remedy = note("annotate-constexpr", name=name)
    elif hasattr(value, "__index__"):
        remedy = note("pass-number", name=name)
    else:
        remedy = note("what-a-kernel-takes")
    raise CannotPass(note("argument-of-no-kernel", name=name, type=kind), remedy)


def constant(value: Any, name: str) -> tuple:
    """Return the value of a constexpr as plain data. Raises CannotPass."""
    if value is None or isinstance(value, bool | int | float | str):
        return "value", value
    if isinstance(value, tuple):
        items = tuple(constant(item, name) for item in value)
        return "tuple", items, getattr(value, "_fields", None)
    if isinstance(value, torch.dtype):
        return "torch", dtype_name(value)
    kind = type(value).__name__
    if kind == "dtype":
        return "dtype", value.name
    if kind == "constexpr":
        return "constexpr", constant(value.value, name)
    if function := _function(value):
        code = function.__code__
        return "function", code.co_filename, function.__name__, code.co_firstlineno
    if getattr(value, "__triton_builtin__", False):
        return "builtin", value.__module__, value.__name__
    if type(value).__module__.startswith("triton.experimental.gluon"):
        return "layout", *_layout(value)
    why = note("constexpr-of-no-kernel", name=name, type=kind)
    raise CannotPass(why, note("what-a-constexpr-is"))


def _layout(layout: Any) -> tuple:
    """Return a layout of Gluon's: its module, its class, and its fields that are not empty."""
    fields = {name: value for name, value in vars(layout).items() if value not in ([], None)}
    kind = type(layout)
    return kind.__module__, kind.__name__, tuple((n, _field(it)) for n, it in fields.items())


def _field(value: Any) -> tuple:
    if isinstance(value, list):
        return "list", tuple(map(_field, value))
    return constant(value, "layout")


def settings(launch: Launch) -> str:
    """Return the constexprs and options of a launch, for messages: `BLOCK=1024, num_warps=8`."""
    constexprs = {n: value for n, value in launch.arguments.items() if n in launch.constexprs}
    return ", ".join(
        f"{name}={getattr(value, '__name__', None) or value}"
        for name, value in (constexprs | launch.options).items()
    )


def _function(value: Any) -> Any:
    """Return the Python function of a @triton.jit function, None for other values."""
    return getattr(value, "fn", None) if hasattr(value, "arg_names") else None


def _tensor(tensor: torch.Tensor, name: str) -> tuple:
    if tensor.is_complex():
        why = note("complex-argument", name=name, dtype=dtype_name(tensor.dtype))
        raise CannotPass(why, note("pass-view-as-real", name=name))
    aligned = tensor.data_ptr() % ALIGNMENT == 0
    small = tensor.untyped_storage().nbytes() < SMALL_BYTES
    return "tensor", dtype_name(tensor.dtype), aligned, small


def _representative(value: int) -> int:
    """Return an int that Triton compiles alike: of the same width, and divisible by 16 or not."""
    if value == 1 or not -(2**63) <= value < 2**64:
        return value
    base = 2**30 if -(2**31) <= value < 2**31 else 2**62 if value < 2**63 else 2**63
    return base if value % ALIGNMENT == 0 else base + 3
