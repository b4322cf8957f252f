"""Arithmetic as a GPU does it: elementwise operations, casts, dot products and histograms.

Floats of 16 bits and less are computed in float32 and rounded to nearest even. Triton's own
interpreter holds bfloat16 and 8-bit floats as bit patterns, and computes on the patterns.

TensorHandle, its arguments and all names of BUILDER_METHODS and FASTER_METHODS are private names of
Triton.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime.interpreter import TensorHandle

from kernelgauge.core import work
from kernelgauge.interpreter import float_formats, libdevice

_INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_NUMPY = {
    **{name: np.dtype(name) for name in _INTEGERS},
    "int1": np.dtype(bool),
    "fp16": np.dtype(np.float16),
    "fp32": np.dtype(np.float32),
    "fp64": np.dtype(np.float64),
    **dict.fromkeys(float_formats.PACKED, np.dtype(np.uint8)),
    "bf16": np.dtype(np.uint16),
}

_ITEMSIZE = {name: held.itemsize for name, held in _NUMPY.items()}

# The formats that something was computed in and rounded to, "to fp16" for casts, since this was
# cleared.
rounded: set[str] = set()

# Whether float32 is divided and exponentiated as a GPU does it: `/` is div.full.f32, a product with
# a reciprocal, which may be off by 2 ulps (tl.div_rn is div.rn.f32, which rounds to nearest), and
# tl.exp is ex2.approx.f32 of a product with log2(e). The last bits are some that they may have, not
# those of any GPU.
approximate = False

# What makes other numbers of those that are to be rounded to a format of 16 bits, so that they are
# rounded otherwise. It takes them as float32 or float64, and the format.
otherwise: Callable[[np.ndarray, str], np.ndarray] | None = None

_LOG2_E = np.float32(np.log2(np.e))

_EXACT = {np.abs, np.fmin, np.fmax, np.minimum, np.maximum}

_COMPARISONS = {np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal}

# int1 wraps around like every other integer.
_ONE_BIT: dict[Callable, Callable] = {
    np.add: np.logical_xor,
    np.subtract: np.logical_xor,
    np.multiply: np.logical_and,
}

# Tensor cores that accumulate in float16 round after each group of this many products.
_FLOAT16_GROUP = 16

# Sums of up to this many products of int8 are exact in float32.
_INT8_EXACT = 1024


def numpy_dtype(dtype: tl.dtype) -> np.dtype:
    """Return the NumPy type in which the interpreter holds elements of a Triton type."""
    scalar = dtype.scalar
    if isinstance(scalar, tl.pointer_type):
        return np.dtype(np.uint64)
    return _NUMPY[scalar.name]


def make_handle(
    self: TensorHandle, data: np.ndarray, dtype: tl.dtype, attr: dict | None = None
) -> None:
    """Stand in for TensorHandle.__init__, in one step. Raises ValueError for elements too large."""
    held = _ITEMSIZE.get(dtype.name)
    if held is not None and data.itemsize > held:
        raise ValueError(f"elements of {data.itemsize} bytes are too large for {dtype}")
    self.data, self.dtype, self.attr = data, dtype, {} if attr is None else attr


def make_tensor(data: np.ndarray, dtype: tl.dtype) -> tl.tensor:
    """Return the interpreter's tensor of these elements, a scalar if the array has no axes.

    data: held as numpy_dtype(dtype) says
    """
    shape = np.shape(data)
    kind = tl.block_type(dtype, list(shape)) if shape else dtype
    # The interpreter holds a scalar as an array of one element.
    return tl.tensor(TensorHandle(np.atleast_1d(data), dtype), kind)


def widen(data: np.ndarray, name: str) -> np.ndarray:
    """Return the numbers to compute with: float32 for narrower floats, else the data itself.

    name: Triton's name of the element type, such as bf16
    """
    if name in float_formats.PACKED:
        return float_formats.unpack(data, name)
    return data.astype(np.float32) if name == "fp16" else data


def narrow(values: np.ndarray, name: str) -> np.ndarray:
    """Return computed numbers as the interpreter holds them, rounded to nearest even."""
    if otherwise and _ITEMSIZE[name] == 2 and values.dtype.kind == "f":
        values = otherwise(values, name)
    if name in float_formats.PACKED:
        return float_formats.pack(values, name)
    return values.astype(_NUMPY[name], copy=False)


def convert(
    data: np.ndarray, source: tl.dtype, target: tl.dtype, toward_zero: bool = False
) -> np.ndarray:
    """Cast data of one element type to another, rounding to nearest even or toward zero."""
    if source.name in float_formats.PACKED:
        data = float_formats.unpack(data, source.name)
    if target.name in float_formats.PACKED:
        return float_formats.pack(data, target.name, toward_zero)
    dtype = numpy_dtype(target)
    if toward_zero and dtype == np.float16:
        return float_formats.to_float16_toward_zero(data)
    if data.dtype.kind == "f" and dtype.kind in "iu":
        return float_formats.to_integer(data, dtype)
    return data.astype(dtype)


def _cast(builder: Any, source: Any, target: Any, rounding: Any = None) -> Any:
    toward_zero = rounding == ir.ROUNDING_MODE.RTZ
    name, was = target.scalar.name, source.dtype.scalar.name
    rounded.add(f"to {name}")
    if source.attr.get("cast from wider"):
        # It was rounded on the way, and not to be stored.
        rounded.add(was)
    data = source.data
    if otherwise and name in ("fp16", "bf16") and data.dtype.kind == "f" and data.itemsize > 2:
        data = otherwise(data, name)
    data = convert(data, source.dtype.scalar, target.scalar, toward_zero)
    return TensorHandle(data, target.scalar, {"cast from wider": _ITEMSIZE[name] < _ITEMSIZE[was]})


def _bfloat16(builder: Any, value: Any) -> Any:
    return TensorHandle(float_formats.pack(np.array([value], np.float64), "bf16"), tl.bfloat16)


def _all_ones(builder: Any, dtype: Any) -> Any:
    return TensorHandle(np.invert(np.zeros(1, numpy_dtype(dtype))), dtype.scalar)


def _unary(builder: Any, operand: Any, compute: Callable) -> Any:
    dtype = operand.dtype.scalar
    if compute not in _EXACT:
        rounded.add(dtype.name)
    result = compute(widen(operand.data, dtype.name))
    return TensorHandle(narrow(result, dtype.name), dtype)


def _binary(builder: Any, left: Any, right: Any, compute: Callable) -> Any:
    dtype = left.dtype.scalar
    name = dtype.name
    if name == "int1":
        compute = _ONE_BIT.get(compute, compute)
    result = compute(widen(left.data, name), widen(right.data, name))
    if compute in _COMPARISONS:
        return TensorHandle(result, tl.int1)
    if compute not in _EXACT:
        rounded.add(name)
    return TensorHandle(narrow(result, name), dtype)


def _divide(builder: Any, left: Any, right: Any) -> Any:
    result = _binary(builder, left, right, np.divide)
    if not approximate or left.data.dtype != np.float32:
        return result
    inexact = left.data * (np.float32(1) / right.data)
    return TensorHandle(_near(inexact, result.data), result.dtype)


def _exponential(builder: Any, operand: Any) -> Any:
    result = _unary(builder, operand, np.exp)
    if not approximate or operand.data.dtype != np.float32:
        return result
    inexact = np.exp2(operand.data * _LOG2_E)
    return TensorHandle(_near(inexact, result.data), result.dtype)


def _near(inexact: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return inexact numbers, but exact ones where those leave the range of normal numbers."""
    tiny = np.finfo(np.float32).tiny
    normal = np.isfinite(inexact) & np.isfinite(exact) & (np.abs(exact) > 4 * tiny)
    return np.where(normal & (np.abs(inexact) > tiny), inexact, exact)


def _add_to_pointer(builder: Any, pointer: Any, offset: Any) -> Any:
    width = max(1, pointer.get_element_ty().primitive_bitwidth // 8)
    moved = offset.data.astype(np.uint64)
    if width > 1:
        moved *= np.uint64(width)
    if moved.shape == pointer.data.shape:
        moved += pointer.data
    else:
        moved = moved + pointer.data
    return TensorHandle(moved, pointer.dtype)


def _clamp(builder: Any, operand: Any, low: Any, high: Any, propagate_nan: Any) -> Any:
    drops_nan = propagate_nan == ir.PROPAGATE_NAN.NONE
    at_least, at_most = (np.fmax, np.fmin) if drops_nan else (np.maximum, np.minimum)
    return _binary(builder, _binary(builder, operand, low, at_least), high, at_most)


def _integer_division(compute: Callable) -> Callable:
    """Make a method that divides integers and sets all bits where the divisor is 0.

    So does an NVIDIA GPU.
    """

    def divide(builder: Any, left: Any, right: Any) -> Any:
        divisor = right.data
        zero = divisor == 0
        if not zero.any():
            return TensorHandle(compute(left.data, divisor), left.dtype.scalar)
        result = compute(left.data, np.where(zero, divisor.dtype.type(1), divisor))
        all_ones = np.invert(result.dtype.type(0))
        return TensorHandle(np.where(zero, all_ones, result), left.dtype.scalar)

    return divide


def _multiply_high(builder: Any, left: Any, right: Any) -> Any:
    held = left.data.dtype
    unsigned = f"u{held.itemsize}"
    high = float_formats.multiply_high(left.data.view(unsigned), right.data.view(unsigned))
    return TensorHandle(high.view(held), left.dtype.scalar)


def _fma(builder: Any, x: Any, y: Any, z: Any) -> Any:
    dtype = z.dtype.scalar
    rounded.add(dtype.name)
    result = float_formats.fma(*(widen(operand.data, dtype.name) for operand in (x, y, z)))
    return TensorHandle(narrow(result, dtype.name), dtype)


def _dot(
    builder: Any, a: Any, b: Any, acc: Any, input_precision: Any, max_num_imprecise_acc: Any
) -> Any:
    held = acc.data.dtype
    work.spend((a.data.size + b.data.size + acc.data.size) / work.FACTORS)
    if held == np.int32:
        exact = np.float32 if a.data.shape[-1] <= _INT8_EXACT else np.float64
        product = np.matmul(a.data.astype(exact), b.data.astype(exact))
        return TensorHandle(product.astype(np.int32) + acc.data, acc.dtype.scalar)
    left, right = widen(a.data, a.dtype.scalar.name), widen(b.data, b.dtype.scalar.name)
    if held == np.float16:
        rounded.add("fp16")
        return TensorHandle(_sum_in_float16(left, right, acc.data), acc.dtype.scalar)
    if a.data.dtype == np.float32:
        rounded.add(input_precision.name)
        product = _float32_product(left, right, input_precision.name)
    else:
        product = np.matmul(left, right)
    return TensorHandle(product + acc.data, acc.dtype.scalar)


def _float32_product(a: np.ndarray, b: np.ndarray, precision: str) -> np.ndarray:
    """Multiply float32 matrices. TF32x3 and BF16x6 are so close to IEEE that they count as it."""
    if precision == "TF32":
        return np.matmul(float_formats.to_tf32(a), float_formats.to_tf32(b))
    if precision == "BF16x3":
        a_high, a_low = float_formats.split_bfloat16(a)
        b_high, b_low = float_formats.split_bfloat16(b)
        low = np.matmul(a_low, b_high) + np.matmul(a_high, b_low)
        return low + np.matmul(a_high, b_high)
    return np.matmul(a, b)


def _sum_in_float16(a: np.ndarray, b: np.ndarray, acc: np.ndarray) -> np.ndarray:
    for k in range(0, a.shape[-1], _FLOAT16_GROUP):
        group = slice(k, k + _FLOAT16_GROUP)
        acc = narrow(np.matmul(a[..., group], b[..., group, :]) + acc, "fp16")
    return acc


def _histogram(builder: Any, values: Any, bins: Any, mask: Any) -> Any:
    """Count the values of each bin; values outside [0, bins) are not counted."""
    data = values.data
    counted = (data >= 0) & (data < bins)
    if mask is not None:
        counted &= mask.data
    counts = np.bincount(data[counted].astype(np.intp), minlength=bins)
    return TensorHandle(counts.astype(np.int32), tl.int32)


def _extern_elementwise(
    builder: Any,
    library: Any,
    path: Any,
    symbol: Any,
    arguments: Any,
    return_type: Any,
    is_pure: Any,
) -> Any:
    data = libdevice.call(symbol, [operand.data for operand in arguments])
    return TensorHandle(data.astype(numpy_dtype(return_type), copy=False), return_type.scalar)


def _inline_asm(builder: Any, *_: Any) -> None:
    raise NotImplementedError(
        "tl.inline_asm_elementwise needs a GPU: the interpreter cannot run assembly"
    )


# By the name of the method of InterpreterBuilder that each replaces.
BUILDER_METHODS: dict[str, Callable] = {
    "cast_impl": _cast,
    "create_fp_to_fp": _cast,
    "unary_op": _unary,
    "binary_op": _binary,
    "create_minnumf": lambda builder, left, right: _binary(builder, left, right, np.fmin),
    "create_maxnumf": lambda builder, left, right: _binary(builder, left, right, np.fmax),
    "create_clampf": _clamp,
    "create_fdiv": _divide,
    "create_exp": _exponential,
    # Toward zero, and the remainder has the sign of the dividend.
    "create_idiv": _integer_division(lambda a, b: (a - np.fmod(a, b)) // b),
    "create_srem": _integer_division(np.fmod),
    "create_urem": _integer_division(np.fmod),
    "create_umulhi": _multiply_high,
    "create_fma": _fma,
    "create_dot": _dot,
    "create_histogram": _histogram,
    "create_extern_elementwise": _extern_elementwise,
    "create_inline_asm": _inline_asm,
    "get_all_ones_value": _all_ones,
    "get_bf16": _bfloat16,
}

# The same, where Triton's own are right too, and slow.
FASTER_METHODS: dict[str, Callable] = {
    "create_addptr": _add_to_pointer,
    "create_erf": lambda builder, operand: _unary(builder, operand, float_formats.erf),
}
