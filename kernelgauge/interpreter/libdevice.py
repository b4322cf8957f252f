"""CUDA's libdevice functions for the interpreter, in NumPy.

Kernels find them in `triton.language.extra.libdevice` and `triton.language.extra.cuda.libdevice`,
which call the library by symbols such as `__nv_asinf`. float32 is computed in float64 and rounded,
so it is more accurate than on a GPU. That the functions of the first module are empty, and look
their types up in a dict, is private to Triton.
"""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import triton.language as tl

from kernelgauge.interpreter import float_formats
from kernelgauge.interpreter.memoization import interpreted


def replacements() -> list[tuple[ModuleType, str, Callable]]:
    """Return module, name and replacement of the functions that kernels are to call."""
    cuda = importlib.import_module("triton.language.extra.cuda.libdevice")
    common = importlib.import_module("triton.language.extra.libdevice")
    calls = {
        name: _with_type_errors(name, interpreted(function))
        for name, function in vars(cuda).items()
        if tl.core.is_builtin(function)
    }
    # The functions there are empty: the compiler puts those of its target in their place.
    empty = [name for name, function in vars(common).items() if inspect.isfunction(function)]
    return [
        *((cuda, name, function) for name, function in calls.items()),
        *((common, name, calls.get(name) or _missing(name)) for name in empty),
    ]


def call(symbol: str, operands: list[np.ndarray]) -> np.ndarray:
    """Call the library's function of that symbol. Raises NotImplementedError if NumPy lacks it."""
    name = symbol.removeprefix("__nv_").removeprefix("fast_")
    if name in _FUNCTIONS:
        return _FUNCTIONS[name](*operands)
    if not name.endswith("f") or name[:-1] not in _FUNCTIONS:
        _missing(symbol)()
    wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in operands]
    return _FUNCTIONS[name[:-1]](*wide).astype(np.float32)


def _with_type_errors(name: str, function: Callable) -> Callable:
    def call_function(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except KeyError as error:
            types = ", ".join(map(str, error.args[0]))
            raise TypeError(
                f"libdevice.{name} does not take {types}: convert first, as in x.to(tl.float32)"
            ) from None

    return call_function


def _missing(name: str) -> Callable:
    def fail(*_: Any, **__: Any) -> None:
        raise NotImplementedError(
            f"libdevice's {name} is missing in the interpreter: run this kernel on a GPU"
        )

    return fail


def _elementwise(function: Callable[..., float]) -> Callable:
    """Apply a function of Python floats to arrays; NaN where it is not defined."""

    def guarded(*values: Any) -> Any:
        if any(math.isnan(value) for value in values):
            return math.nan
        try:
            return function(*values)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return np.vectorize(guarded, otypes=[np.float64])


def _erfinv(x: np.ndarray) -> np.ndarray:
    """Invert erf by Newton's method, from Winitzki's approximation."""
    size = np.abs(x)
    a = 0.147
    logarithm = np.log1p(-size * size)
    term = 2 / (math.pi * a) + logarithm / 2
    root = np.sqrt(np.sqrt(term * term - logarithm / a) - term)
    for _ in range(4):
        # Where erf is near 1, erfc resolves the error and erf does not.
        error = np.where(size < 0.5, float_formats.erf(root) - size, (1 - size) - _erfc(root))
        root = root - error * math.sqrt(math.pi) / 2 * np.exp(root * root)
    root = np.where(size == 1, np.inf, root)
    return np.where(x == 0, x, np.copysign(root, x))


def _of_bits(function: Callable[[str], int]) -> Callable:
    """Apply a function of the binary digits to each integer."""

    def of_integers(x: np.ndarray) -> np.ndarray:
        unsigned = x.view(f"u{x.itemsize}")
        texts = [format(int(value), f"0{8 * x.itemsize}b") for value in unsigned.reshape(-1)]
        return np.array([function(text) for text in texts], dtype=np.uint64).reshape(x.shape)

    return of_integers


def _round_half_away(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole), x)


def _in_float64(function: Callable) -> Callable:
    """Compute in float64, so that a sum, product, quotient or root of float32 is rounded once."""
    return lambda *operands: function(*(operand.astype(np.float64) for operand in operands))


def _to_integer(rounding: Callable, dtype: np.dtype) -> Callable:
    return lambda x: float_formats.to_integer(rounding(x), dtype)


def _exponent(x: np.ndarray) -> np.ndarray:
    return np.frexp(np.abs(x))[1] - 1


_erfc = _elementwise(math.erfc)

_INTEGERS = {
    "abs": np.abs,
    "llabs": np.abs,
    "mulhi": lambda x, y: (x.astype(np.int64) * y) >> 32,
    "umulhi": float_formats.multiply_high,
    "umul64hi": float_formats.multiply_high,
}
for _name, _function in {
    "clz": lambda text: len(text) - len(text.lstrip("0")),
    "popc": lambda text: text.count("1"),
    "ffs": lambda text: len(text) - text.rfind("1") if "1" in text else 0,
    "brev": lambda text: int(text[::-1], 2),
}.items():
    _INTEGERS[_name] = _INTEGERS[f"{_name}ll"] = _of_bits(_function)

_CONVERSIONS = {
    "float_as_int": lambda x: x.view(np.int32),
    "float_as_uint": lambda x: x.view(np.int32),
    "int_as_float": lambda x: x.view(np.float32),
    "uint_as_float": lambda x: x.view(np.float32),
    "double_as_longlong": lambda x: x.view(np.int64),
    "longlong_as_double": lambda x: x.view(np.float64),
    "double2float_rn": lambda x: x.astype(np.float32),
}
for _integer, _dtype in {"int": "i4", "uint": "u4", "ll": "i8", "ull": "u8"}.items():
    for _mode, _round in {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}.items():
        for _real in ("float", "double"):
            _CONVERSIONS[f"{_real}2{_integer}_{_mode}"] = _to_integer(_round, np.dtype(_dtype))
    _CONVERSIONS[f"{_integer}2float_rn"] = lambda x: x.astype(np.float32)
    _CONVERSIONS[f"{_integer}2double_rn"] = lambda x: x.astype(np.float64)

_TO_NEAREST = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
    "rcp": np.reciprocal,
}

_NAMED_AS_IN_NUMPY = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos",
    "cosh", "exp", "exp2", "expm1", "fabs", "floor", "fmax", "fmin", "fmod", "hypot", "ldexp",
    "log", "log10", "log1p", "log2", "nextafter", "rint", "sin", "sinh", "sqrt", "tan", "tanh",
    "trunc",
)  # fmt: skip

# By the name of the float64 function. The float32 function has an f after it, and is listed only
# where computing in float64 would be wrong.
_FUNCTIONS = {
    **_INTEGERS,
    **_CONVERSIONS,
    **{
        f"{test}{kind}": getattr(np, test)
        for test in ("isinf", "isnan", "signbit")
        for kind in "fd"
    },
    "finitef": np.isfinite,
    "isfinited": np.isfinite,
    **{f"d{name}_rn": function for name, function in _TO_NEAREST.items()},
    **{f"f{name}_rn": _in_float64(function) for name, function in _TO_NEAREST.items()},
    **{name: getattr(np, name) for name in _NAMED_AS_IN_NUMPY},
    "cospi": lambda x: np.cos(math.pi * np.fmod(x, 2)),
    "erf": float_formats.erf,
    "erfc": _erfc,
    "erfinv": _erfinv,
    "exp10": lambda x: np.power(10.0, x),
    "fdim": lambda x, y: np.where(x > y, x - y, np.where(x <= y, 0.0, np.nan)),
    "fdivide": np.divide,
    **dict.fromkeys(("fma", "fma_rn", "fmaf", "fmaf_rn"), float_formats.fma),
    "frsqrt_rn": _in_float64(lambda x: 1 / np.sqrt(x)),
    "ilogb": _exponent,
    "ilogbf": _exponent,
    "lgamma": _elementwise(math.lgamma),
    "logb": lambda x: _exponent(x).astype(np.float64),
    "nearbyint": np.rint,
    "nextafterf": np.nextafter,
    "normcdf": lambda x: _erfc(-x / math.sqrt(2)) / 2,
    "pow": np.power,
    "powi": np.power,
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "remainder": _elementwise(math.remainder),
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "round": _round_half_away,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "saturate": lambda x: np.fmin(np.fmax(x, 0), 1),
    "scalbn": np.ldexp,
    "sinpi": lambda x: np.sin(math.pi * np.fmod(x, 2)),
    "tgamma": _elementwise(math.gamma),
}
