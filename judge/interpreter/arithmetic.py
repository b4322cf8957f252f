"""Arithmetic of Triton's interpreter as a GPU does it: elementwise, casts, dots, histograms.

16-bit and 8-bit floats are computed in float32 and rounded to nearest even; the interpreter holds
bfloat16 and 8-bit floats as bit patterns and would compute on those. Each function here is a method
of Triton's InterpreterBuilder, or a function of its module, and takes the place of the one there.
"""

from __future__ import annotations

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as interpreter
from triton._C.libtriton import ir
from triton.runtime.interpreter import TensorHandle

from judge.interpreter import float_formats, libdevice

_NUMPY = {
    "int1": bool,
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
    "bf16": "uint16",
    **dict.fromkeys(float_formats.PACKED - {"bf16"}, "uint8"),
}
_NUMPY = {name: np.dtype(kind) for name, kind in _NUMPY.items()}

_COMPARISONS = {
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
    np.equal,
    np.not_equal,
}

# int1 arithmetic wraps around, as that of every other integer.
_ONE_BIT = {np.add: np.logical_xor, np.subtract: np.logical_xor, np.multiply: np.logical_and}

# Tensor cores that accumulate in float16 round after each step of so many products.
_FLOAT16_STEP = 16

# Sums of so many products of int8 are exact in float32.
_INT8_EXACT = 1024


def numpy_dtype(dtype: tl.dtype) -> np.dtype:
    """What the interpreter holds the elements of a Triton type in."""
    scalar = dtype.scalar
    if isinstance(scalar, tl.pointer_type):
        return np.dtype(np.uint64)
    return _NUMPY[scalar.name]


def fits(array: np.ndarray, dtype: tl.dtype) -> bool:
    """Whether the elements are no larger than those of the Triton type."""
    held = _NUMPY.get(dtype.scalar.name)
    return held is None or array.itemsize <= held.itemsize


def widened(data: np.ndarray, name: str) -> np.ndarray:
    """What to compute with: float32 for smaller floats, and else the data itself."""
    if name in float_formats.PACKED:
        return float_formats.unpack(data, name)
    return data.astype(np.float32) if name == "fp16" else data


def narrowed(values: np.ndarray, name: str) -> np.ndarray:
    """What the interpreter holds of computed values, rounded to nearest even."""
    if name in float_formats.PACKED:
        return float_formats.pack(values, name)
    return values.astype(_NUMPY[name], copy=False)


def converted(
    data: np.ndarray, source: tl.dtype, target: tl.dtype, toward_zero: bool = False
) -> np.ndarray:
    """Data of one element type as another: a cast."""
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


def _cast(builder, source, target):
    scalar = target.scalar
    return TensorHandle(converted(source.data, source.dtype.scalar, scalar), scalar)


def _fp_to_fp(builder, source, target, rounding):
    toward_zero = rounding == ir.ROUNDING_MODE.RTZ
    data = converted(source.data, source.dtype.scalar, target.scalar, toward_zero)
    return TensorHandle(data, target.scalar)


def _bfloat16(builder, value):
    return TensorHandle(
        float_formats.pack(np.array([value], dtype=np.float64), "bf16"), tl.bfloat16
    )


def _all_ones(builder, dtype):
    ones = np.invert(np.zeros(1, dtype=numpy_dtype(dtype)))
    return TensorHandle(ones, dtype.scalar)


def _unary(builder, operand, compute):
    dtype = operand.dtype.scalar
    result = compute(widened(operand.data, dtype.name))
    return TensorHandle(narrowed(result, dtype.name), dtype)


def _binary(builder, left, right, compute):
    dtype = left.dtype.scalar
    name = dtype.name
    if name == "int1":
        compute = _ONE_BIT.get(compute, compute)
    result = compute(widened(left.data, name), widened(right.data, name))
    if compute in _COMPARISONS:
        return TensorHandle(result, tl.int1)
    if name in float_formats.PACKED:
        result = float_formats.pack(result, name)
    elif result.dtype != left.data.dtype:
        result = result.astype(left.data.dtype)
    return TensorHandle(result, dtype)


def _of_two(compute):
    return lambda builder, left, right: _binary(builder, left, right, compute)


def _clamp(builder, operand, low, high, propagate_nan):
    if propagate_nan == ir.PROPAGATE_NAN.NONE:
        at_least, at_most = np.fmax, np.fmin
    else:
        at_least, at_most = np.maximum, np.minimum
    return _binary(builder, _binary(builder, operand, low, at_least), high, at_most)


def _divide(builder, left, right):
    """Toward zero. All bits are set where the divisor is 0, as on an NVIDIA GPU."""
    dividend, divisor = left.data, right.data
    zero = divisor == 0
    if zero.any():
        divisor = np.where(zero, divisor.dtype.type(1), divisor)
    quotient = (dividend - np.fmod(dividend, divisor)) // divisor
    if zero.any():
        quotient = np.where(zero, np.invert(quotient.dtype.type(0)), quotient)
    return TensorHandle(quotient, left.dtype.scalar)


def _remainder(builder, left, right):
    """Of the dividend's sign. All bits are set where the divisor is 0, as on an NVIDIA GPU."""
    remainder = np.fmod(left.data, right.data)
    zero = right.data == 0
    if zero.any():
        remainder = np.where(zero, np.invert(remainder.dtype.type(0)), remainder)
    return TensorHandle(remainder, left.dtype.scalar)


def _multiply_high(builder, left, right):
    held = left.data.dtype
    unsigned = f"u{held.itemsize}"
    high = float_formats.multiply_high(left.data.view(unsigned), right.data.view(unsigned))
    return TensorHandle(high.view(held), left.dtype.scalar)


def _fma(builder, x, y, z):
    name = z.dtype.scalar.name
    result = float_formats.fma(*(widened(operand.data, name) for operand in (x, y, z)))
    return TensorHandle(narrowed(result, name), z.dtype.scalar)


def _erf(builder, operand):
    return _unary(builder, operand, float_formats.erf)


def _dot(builder, a, b, acc, input_precision, max_num_imprecise_acc):
    held = acc.data.dtype
    if held == np.int32:
        exact = np.float32 if a.data.shape[-1] <= _INT8_EXACT else np.float64
        product = np.matmul(a.data.astype(exact), b.data.astype(exact))
        return TensorHandle(product.astype(np.int32) + acc.data, acc.dtype.scalar)
    left = widened(a.data, a.dtype.scalar.name)
    right = widened(b.data, b.dtype.scalar.name)
    if held == np.float16:
        return TensorHandle(_sum_in_float16(left, right, acc.data), acc.dtype.scalar)
    if a.data.dtype == np.float32:
        product = _float32_product(left, right, input_precision.name)
    else:
        product = np.matmul(left, right)
    return TensorHandle(product + acc.data, acc.dtype.scalar)


def _float32_product(a: np.ndarray, b: np.ndarray, precision: str) -> np.ndarray:
    """TF32x3 and BF16x6 come so near to IEEE that they are taken for it."""
    if precision == "TF32":
        return np.matmul(float_formats.to_tf32(a), float_formats.to_tf32(b))
    if precision == "BF16x3":
        (a_high, a_low), (b_high, b_low) = (
            float_formats.split_bfloat16(a),
            float_formats.split_bfloat16(b),
        )
        low = np.matmul(a_low, b_high) + np.matmul(a_high, b_low)
        return low + np.matmul(a_high, b_high)
    return np.matmul(a, b)


def _sum_in_float16(a: np.ndarray, b: np.ndarray, acc: np.ndarray) -> np.ndarray:
    for k in range(0, a.shape[-1], _FLOAT16_STEP):
        step = slice(k, k + _FLOAT16_STEP)
        acc = (np.matmul(a[..., step], b[..., step, :]) + acc).astype(np.float16)
    return acc


def _histogram(builder, values, bins, mask):
    """Values outside [0, bins) are not counted."""
    data = values.data
    counted = (data >= 0) & (data < bins)
    if mask is not None:
        counted &= mask.data
    counts = np.bincount(data[counted].astype(np.intp), minlength=bins)
    return TensorHandle(counts.astype(np.int32), tl.int32)


def _extern_elementwise(builder, library, path, symbol, arguments, return_type, is_pure):

    data = libdevice.call(symbol, [operand.data for operand in arguments])
    return TensorHandle(data.astype(numpy_dtype(return_type), copy=False), return_type.scalar)


def _inline_asm(builder, *_):
    raise NotImplementedError(
        "tl.inline_asm_elementwise needs a GPU: the interpreter runs no assembly"
    )


METHODS = {
    "cast_impl": _cast,
    "create_fp_to_fp": _fp_to_fp,
    "unary_op": _unary,
    "binary_op": _binary,
    "create_minnumf": _of_two(np.fmin),
    "create_maxnumf": _of_two(np.fmax),
    "create_clampf": _clamp,
    "create_idiv": _divide,
    "create_srem": _remainder,
    "create_urem": _remainder,
    "create_umulhi": _multiply_high,
    "create_fma": _fma,
    "create_erf": _erf,
    "create_dot": _dot,
    "create_histogram": _histogram,
    "create_extern_elementwise": _extern_elementwise,
    "create_inline_asm": _inline_asm,
    "get_all_ones_value": _all_ones,
    "get_bf16": _bfloat16,
}


def install() -> None:
    for name, method in METHODS.items():
        setattr(interpreter.InterpreterBuilder, name, method)
    interpreter._get_np_dtype = numpy_dtype
    interpreter._validate_np_data_size = fits
