"""CUDA's libdevice functions for the interpreter, in NumPy.

Kernels find them in `triton.language.extra.libdevice` and `triton.language.extra.cuda.libdevice`,
which call the library by symbols such as `__nv_asinf`. float32 is computed in float64 and rounded,
so it is nearer to the truth than on a GPU.
"""

from __future__ import annotations

import importlib
import inspect
import math

import numpy as np
import triton.language as tl

from judge.interpreter import float_formats
from judge.interpreter.memoization import interpreted

_MODULES = ("triton.language.extra.cuda.libdevice", "triton.language.extra.libdevice")


def install() -> None:
    """Let kernels in the interpreter call the functions of both modules."""

    cuda, common = (importlib.import_module(name) for name in _MODULES)
    calls = {
        name: _explained(name, interpreted(function))
        for name, function in vars(cuda).items()
        if tl.core.is_builtin(function)
    }
    for name, call in calls.items():
        setattr(cuda, name, call)
    # The functions there are empty: the compiler puts those of its target in their place.
    for name, function in list(vars(common).items()):
        if inspect.isfunction(function):
            setattr(common, name, calls.get(name) or _refusing(name))


def call(symbol: str, operands: list[np.ndarray]) -> np.ndarray:
    """What the library's function returns. Raises NotImplementedError if it is not known here."""
    name = symbol.removeprefix("__nv_").removeprefix("fast_")
    if name in FUNCTIONS:
        return FUNCTIONS[name](*operands)
    if not name.endswith("f") or name[:-1] not in FUNCTIONS:
        raise _refusal(symbol)
    wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in operands]
    return FUNCTIONS[name[:-1]](*wide).astype(np.float32)


def _explained(name: str, function):
    def call_with(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except KeyError as error:
            types = ", ".join(map(str, error.args[0]))
            raise TypeError(
                f"libdevice.{name} takes no {types}: convert first, as in x.to(tl.float32)"
            ) from None

    return call_with


def _refusing(name: str):
    def refuse(*_, **__):
        raise _refusal(name)

    return refuse


def _refusal(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"libdevice's {name} has no version for the interpreter: run this kernel on a GPU"
    )


def _each(function):
    """A function of Python floats, NaN where it is not defined."""

    def guarded(*values):
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
    """By Newton's method from Winitzki's approximation."""
    size = np.abs(x)
    a = 0.147
    logarithm = np.log1p(-size * size)
    term = 2 / (math.pi * a) + logarithm / 2
    root = np.sqrt(np.sqrt(term * term - logarithm / a) - term)
    complement = _each(math.erfc)
    for _ in range(4):
        # Of erfc where erf is near 1 and cannot tell.
        error = np.where(size < 0.5, float_formats.erf(root) - size, (1 - size) - complement(root))
        root = root - error * math.sqrt(math.pi) / 2 * np.exp(root * root)
    root = np.where(size == 1, np.inf, root)
    return np.where(x == 0, x, np.copysign(root, x))


def _bits(function):
    """A function of the bits of each integer."""

    def of_integers(x: np.ndarray) -> np.ndarray:
        width = 8 * x.dtype.itemsize
        unsigned = x.view(f"u{x.dtype.itemsize}")
        texts = [format(int(value), f"0{width}b") for value in unsigned.reshape(-1)]
        return np.array([function(text) for text in texts], dtype=np.uint64).reshape(x.shape)

    return of_integers


def _round_half_away(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole), x)


def _rounded_once(function):
    """Of float32, in float64: sums, products, quotients and roots are rounded once that way."""

    def in_double(*operands: np.ndarray) -> np.ndarray:
        return function(*(operand.astype(np.float64) for operand in operands))

    return in_double


def _exponent(x: np.ndarray) -> np.ndarray:
    return np.frexp(np.abs(x))[1] - 1


_integers = {
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
    _integers[_name] = _integers[f"{_name}ll"] = _bits(_function)

_tests = {
    "finitef": np.isfinite,
    "isfinited": np.isfinite,
    "isinff": np.isinf,
    "isinfd": np.isinf,
    "isnanf": np.isnan,
    "isnand": np.isnan,
    "signbitf": np.signbit,
    "signbitd": np.signbit,
}

_conversions = {
    "float_as_int": lambda x: x.view(np.int32),
    "float_as_uint": lambda x: x.view(np.int32),
    "int_as_float": lambda x: x.view(np.float32),
    "uint_as_float": lambda x: x.view(np.float32),
    "double_as_longlong": lambda x: x.view(np.int64),
    "longlong_as_double": lambda x: x.view(np.float64),
}
for _source, _target, _dtype in (
    ("float", "int", "i4"),
    ("float", "uint", "u4"),
    ("float", "ll", "i8"),
    ("float", "ull", "u8"),
    ("double", "int", "i4"),
    ("double", "uint", "u4"),
    ("double", "ll", "i8"),
    ("double", "ull", "u8"),
):
    for _mode, _round in {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}.items():
        _conversions[f"{_source}2{_target}_{_mode}"] = lambda x, r=_round, d=_dtype: (
            float_formats.to_integer(r(x), np.dtype(d))
        )
    if _source == "float":
        _conversions[f"{_target}2float_rn"] = lambda x: x.astype(np.float32)
    _conversions[f"{_target}2double_rn"] = lambda x: x.astype(np.float64)
_conversions["double2float_rn"] = lambda x: x.astype(np.float32)

_to_nearest = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
    "rcp": np.reciprocal,
}

# By the name of the float64 function; the float32 function has an f after it, and stands here only
# if computing it in float64 is no good.
FUNCTIONS = {
    **_integers,
    **_tests,
    **_conversions,
    **{f"d{name}_rn": function for name, function in _to_nearest.items()},
    **{f"f{name}_rn": _rounded_once(function) for name, function in _to_nearest.items()},
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "copysign": np.copysign,
    "cos": np.cos,
    "cosh": np.cosh,
    "cospi": lambda x: np.cos(math.pi * np.fmod(x, 2)),
    "erf": float_formats.erf,
    "erfc": _each(math.erfc),
    "erfinv": _erfinv,
    "exp": np.exp,
    "exp10": lambda x: np.power(10.0, x),
    "exp2": np.exp2,
    "expm1": np.expm1,
    "fabs": np.abs,
    "fdim": lambda x, y: np.where(x > y, x - y, np.where(x <= y, 0.0, np.nan)),
    "floor": np.floor,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "fdivide": np.divide,
    "fma": float_formats.fma,
    "fma_rn": float_formats.fma,
    "fmaf": float_formats.fma,
    "fmaf_rn": float_formats.fma,
    "frsqrt_rn": _rounded_once(lambda x: 1 / np.sqrt(x)),
    "ilogb": _exponent,
    "ilogbf": _exponent,
    "ldexp": np.ldexp,
    "lgamma": _each(math.lgamma),
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "logb": lambda x: _exponent(x).astype(np.float64),
    "nearbyint": np.rint,
    "nextafter": np.nextafter,
    "nextafterf": np.nextafter,
    "normcdf": lambda x: _each(math.erfc)(-x / math.sqrt(2)) / 2,
    "pow": np.power,
    "powi": np.power,
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "remainder": _each(math.remainder),
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "rint": np.rint,
    "round": _round_half_away,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "saturate": lambda x: np.fmin(np.fmax(x, 0), 1),
    "scalbn": np.ldexp,
    "sin": np.sin,
    "sinh": np.sinh,
    "sinpi": lambda x: np.sin(math.pi * np.fmod(x, 2)),
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "tgamma": _each(math.gamma),
    "trunc": np.trunc,
}
