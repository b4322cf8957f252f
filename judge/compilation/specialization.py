"""The arguments of a launch as plain data that another process can specialise a kernel by.

Triton compiles a kernel anew for each combination of argument types and of what it may assume of
the values: whether a pointer or an int is a multiple of 16, whether an int is 1, how many bits it
takes. Values that Triton cannot tell apart become one representative here, so that equal data mean
one compilation. The worker (worker.py) makes arguments of them again, and Triton's own code
specialises by those.
"""

from __future__ import annotations

import torch

from judge.core.dtypes import dtype_name
from judge.core.launch import Launch

ALIGNMENT = 16
# AMD's backend addresses tensors of less bytes than this with 32-bit offsets.
SMALL_BYTES = 2**31
TAKES = "a kernel takes tensors, tensor descriptors, int, float, bool, None and tuples of them"


class CannotPass(TypeError):
    """An argument that no kernel takes, in a sentence."""


def arguments(launch: Launch) -> dict[str, tuple]:
    """Each argument by name, as nested tuples of plain values. Raises CannotPass."""
    return {
        name: constant(value, name) if name in launch.constexprs else argument(value, name)
        for name, value in launch.arguments.items()
    }


def argument(value: object, name: str) -> tuple:
    """What specialises a parameter that is no constexpr. Raises CannotPass."""
    if value is None or isinstance(value, bool):
        return "value", value
    if isinstance(value, int):
        return "value", _representative(value)
    if isinstance(value, float):
        return "value", 2.5
    if isinstance(value, torch.Tensor):
        return _tensor(value, name)
    if type(value).__name__ == "TensorDescriptor":
        return "descriptor", _tensor(value.base, name), tuple(value.block_shape)
    if isinstance(value, tuple):
        items = tuple(argument(item, name) for item in value)
        return "tuple", items, getattr(value, "_fields", None)
    kind = type(value).__name__
    advice = {
        "str": f"annotate {name}: tl.constexpr",
        "dtype": f"annotate {name}: tl.constexpr, and pass a dtype of Triton, such as tl.float32",
        "list": f"pass tuple({name})",
    }.get(kind, f"pass int({name}) or float({name})" if hasattr(value, "__index__") else TAKES)
    if _function(value):
        advice = f"annotate {name}: tl.constexpr"
    raise CannotPass(
        f"the argument {name} is a {kind}, which a kernel does not take\nhint: {advice}"
    )


def constant(value: object, name: str) -> tuple:
    """A constexpr's value. Raises CannotPass."""
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
    raise CannotPass(
        f"the constexpr {name} is a {kind}\n"
        "hint: a constexpr is a number, a string, a dtype of Triton, a tuple or a jit function"
    )


def settings(launch: Launch) -> str:
    """What the launch chose, for a message: `BLOCK=1024, num_warps=8`."""
    chosen = {
        name: launch.arguments[name] for name in launch.arguments if name in launch.constexprs
    }
    return ", ".join(f"{name}={_shown(value)}" for name, value in (chosen | launch.options).items())


def _shown(value: object) -> str:
    return getattr(value, "__name__", None) or str(value)


def _function(value: object):
    """The Python function of a @triton.jit function."""
    return getattr(value, "fn", None) if hasattr(value, "arg_names") else None


def _tensor(tensor: torch.Tensor, name: str) -> tuple:
    if tensor.is_complex():
        raise CannotPass(
            f"the argument {name} is a {str(tensor.dtype).removeprefix('torch.')} tensor: "
            "Triton has no complex numbers\n"
            f"hint: pass torch.view_as_real({name}), pairs of floats"
        )
    aligned = tensor.data_ptr() % ALIGNMENT == 0
    small = tensor.untyped_storage().nbytes() < SMALL_BYTES
    return "tensor", dtype_name(tensor.dtype), aligned, small


def _representative(value: int) -> int:
    if value == 1 or not -(2**63) <= value < 2**64:
        return value
    for bits in (31, 63):
        if -(2**bits) <= value < 2**bits:
            base = 2 ** (bits - 1)
            break
    else:
        base = 2**63
    return base if value % ALIGNMENT == 0 else base + 3
