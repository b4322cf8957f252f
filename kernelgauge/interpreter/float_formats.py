"""Number formats that NumPy lacks, and elementwise arithmetic that rounds only once.

bfloat16 and the 8-bit floats are held as their bit patterns, in uint16 and uint8, under the names
that Triton gives them: bf16, fp8e5, fp8e4nv, fp8e4b15, fp8e5b16, fp8e4b8.
"""

from __future__ import annotations

import functools
import math

import numpy as np

# Mantissa bits, exponent bias, and how NaN and infinity are encoded.
_FLOAT8 = {
    "fp8e5": (2, 15, "ieee"),
    "fp8e4nv": (3, 7, "nan at all ones"),
    "fp8e4b15": (3, 15, "no nan"),
    "fp8e5b16": (2, 16, "nan at minus zero"),
    "fp8e4b8": (3, 8, "nan at minus zero"),
}

PACKED = frozenset({"bf16", *_FLOAT8})

# NVIDIA's conversions to bfloat16 turn any NaN into this one.
_BFLOAT16_NAN = 0x7FFF

# Where erf is 1 in float64.
_ERF_END = 6.0
_ERF_STEPS = 64


def unpack(bits: np.ndarray, name: str) -> np.ndarray:
    """Return the float32 values of packed bits."""
    if name == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return _float8_values(name)[bits.view(np.uint8)]


def pack(values: np.ndarray, name: str, toward_zero: bool = False) -> np.ndarray:
    """Return the bits of numbers of any dtype, rounded once: to nearest even, or toward zero.

    bfloat16 overflows to infinity. The 8-bit floats saturate, as `cvt.satfinite` does.
    """
    if name != "bf16":
        return _pack_float8(values, name, toward_zero)
    if values.dtype != np.float32:
        values = _to_float32_odd(values.astype(np.float64))
    bits = values.view(np.uint32)
    if toward_zero:
        packed = (bits >> np.uint32(16)).astype(np.uint16)
    else:
        half = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
        packed = ((bits + half) >> np.uint32(16)).astype(np.uint16)
    nan = np.isnan(values)
    if nan.any():
        packed[nan] = _BFLOAT16_NAN
    return packed


def to_float16_toward_zero(values: np.ndarray) -> np.ndarray:
    """Round float32 or float64 to float16, toward zero."""
    nearest = values.astype(np.float16)
    too_large = np.abs(nearest).astype(values.dtype) > np.abs(values)
    return (nearest.view(np.uint16) - too_large.astype(np.uint16)).view(np.float16)


def to_integer(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert floats to integers as PTX's `cvt.rzi` does: toward zero, saturating.

    NaN becomes 0 in 32 bits, and the sign bit alone if either type has 64, as seen on an H200.
    Integers of 8 and 16 bits are the low bytes of 32-bit ones.
    """
    wide = dtype if dtype.itemsize >= 4 else np.dtype("i4" if dtype.kind == "i" else "u4")
    limits = np.iinfo(wide)
    too_low, too_high = values < float(limits.min), values >= float(limits.max)
    unusual = too_low | too_high | np.isnan(values)
    if not unusual.any():
        return values.astype(wide).astype(dtype, copy=False)
    result = np.where(unusual, values.dtype.type(0), values).astype(wide)
    result[too_low], result[too_high] = limits.min, limits.max
    if max(values.itemsize, wide.itemsize) == 8:
        lowest = np.array(1 << (8 * wide.itemsize - 1), dtype=f"u{wide.itemsize}").view(wide)
        result[np.isnan(values)] = lowest
    return result.astype(dtype, copy=False)


def to_tf32(values: np.ndarray) -> np.ndarray:
    """Cut float32 to the 10 mantissa bits that tensor cores read. NaN stays NaN.

    Triton passes float32 operands to the tensor core as they are, which ignores the low 13 bits:
    they are truncated, not rounded. Sources: the warning in the docstring of `tl.dot`, and
    https://github.com/triton-lang/triton/issues/4574.
    """
    kept = (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isnan(values), values, kept)


def split_bfloat16(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split float32 into its bfloat16 and the bfloat16 of the rest, both held as float32."""
    high = unpack(pack(values, "bf16"), "bf16")
    return high, unpack(pack(values - high, "bf16"), "bf16")


def fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return x * y + z in float64, for float64 operands rounded to nearest.

    For narrower ones it is rounded to odd, so that rounding it again to their type rounds once.
    Source for float64: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved
    algorithms using rounding to odd", IEEE Transactions on Computers 57 (2008).
    """
    if x.dtype != np.float64:
        return _sum_odd(x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64))
    high, low = _two_product(x, y)
    z_high, z_low = _two_sum(z, low)
    total, rest = _two_sum(high, z_high)
    result = total + _sum_odd(z_low, rest)
    # The error terms of infinities are NaN.
    return np.where(np.isfinite(result), result, x * y + z)


def erf(x: np.ndarray) -> np.ndarray:
    """Return the error function of float32 or float64, to about one unit in the last place."""
    values = x.astype(np.float64)
    size = np.fmin(np.abs(values), _ERF_END)
    node = np.rint(size * _ERF_STEPS).astype(np.intp)
    step = size - node / _ERF_STEPS
    series = _erf_series()[: 5 if x.dtype == np.float32 else None]
    result = series[-1][node]
    for coefficients in series[-2::-1]:
        result = result * step + coefficients[node]
    result = np.copysign(result, values)
    result[np.isnan(values)] = np.nan
    return result.astype(x.dtype)


def multiply_high(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the high half of the product of unsigned 32-bit or 64-bit integers."""
    if x.dtype.itemsize == 4:
        return ((x.astype(np.uint64) * y) >> np.uint64(32)).astype(np.uint32)
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x_low, x_high, y_low, y_high = x & mask, x >> half, y & mask, y >> half
    middle = x_high * y_low + ((x_low * y_low) >> half)
    carry = (middle & mask) + x_low * y_high
    return x_high * y_high + (middle >> half) + (carry >> half)


@functools.cache
def _float8_values(name: str) -> np.ndarray:
    mantissa, bias, special = _FLOAT8[name]
    code = np.arange(256)
    exponent, fraction = (code & 0x7F) >> mantissa, code & ((1 << mantissa) - 1)
    normal = np.ldexp(1.0 + fraction / (1 << mantissa), exponent - bias)
    values = np.where(exponent == 0, np.ldexp(fraction / (1 << mantissa), 1 - bias), normal)
    if special == "ieee":
        values[exponent == 31] = [math.inf, math.nan, math.nan, math.nan] * 2
    elif special == "nan at all ones":
        values[code & 0x7F == 0x7F] = math.nan
    values = np.where(code < 128, values, -values)
    if special == "nan at minus zero":
        values[0x80] = math.nan
    return values.astype(np.float32)


def _pack_float8(values: np.ndarray, name: str, toward_zero: bool) -> np.ndarray:
    special = _FLOAT8[name][2]
    positive = _float8_values(name)[:128].astype(np.float64)
    positive = positive[np.isfinite(positive)]
    values = values.astype(np.float64)
    size = np.abs(values)
    if toward_zero:
        code = np.searchsorted(positive, size, side="right") - 1
    else:
        middles = (positive[:-1] + positive[1:]) / 2
        code = np.searchsorted(middles, size)
        tied = np.append(middles, np.inf)[np.minimum(code, middles.size)] == size
        code = code + (tied & (code % 2 == 1) & (code < middles.size))
    negative = np.signbit(values)
    if special == "nan at minus zero":
        negative &= code > 0
    bits = (code | (negative << 7)).astype(np.uint8)
    bits[np.isnan(values)] = 0x80 if special == "nan at minus zero" else 0x7F
    return bits


def _to_float32_odd(values: np.ndarray) -> np.ndarray:
    """Round float64 to float32, to odd: rounding the result again is like rounding only once."""
    nearest = values.astype(np.float32)
    back = nearest.astype(np.float64)
    inexact = (back != values) & np.isfinite(values)
    return _make_odd(nearest, inexact, np.abs(back) < np.abs(values))


def _sum_odd(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a + b in float64, rounded to odd."""
    total, error = _two_sum(a, b)
    return _make_odd(total, (error != 0) & np.isfinite(total), (error > 0) == (total > 0))


def _make_odd(nearest: np.ndarray, inexact: np.ndarray, is_short: np.ndarray) -> np.ndarray:
    """Turn rounding to nearest into rounding to odd.

    inexact: where rounding changed a finite value
    is_short: where it moved the value toward zero
    """
    bits = nearest.view(f"i{nearest.itemsize}")
    step = np.where(is_short, 1, -1).astype(bits.dtype)
    adjust = inexact & (bits & 1 == 0)
    return np.where(adjust, bits + step, bits).view(nearest.dtype)


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    product = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    error = ((product - a_high * b_high) - a_low * b_high) - a_high * b_low
    return product, a_low * b_low - error


def _halves(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


@functools.cache
def _erf_series() -> np.ndarray:
    """Return the Taylor coefficients of erf at multiples of 1 / _ERF_STEPS: (terms, nodes)."""
    node = np.arange(int(_ERF_END) * _ERF_STEPS + 1) / _ERF_STEPS
    slope = 2 / math.sqrt(math.pi) * np.exp(-node * node)
    # Derivative n + 1 of erf is slope * (-1)**n * hermite(n), in the physicists' convention.
    hermite = [np.ones_like(node), 2 * node]
    for n in range(1, 6):
        hermite.append(2 * node * hermite[n] - 2 * n * hermite[n - 1])
    terms = [
        slope * (-1) ** n * polynomial / math.factorial(n + 1)
        for n, polynomial in enumerate(hermite)
    ]
    return np.stack([[math.erf(value) for value in node], *terms])
