"""Whether the repairs of judge.interpreter.patches have their effect: a tiny kernel for each.

What they stand on are private names of Triton, which another version may have changed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from judge.interpreter.overflow import IntegerOverflow, overflow_errors

NAN = float("nan")


@dataclass(frozen=True)
class Check:
    """One kernel: kernel(x_ptr, y_ptr, N) must turn x into y. N: the number of elements of x."""

    kernel: object
    x: torch.Tensor
    y: list[float]

    def run(self) -> str | None:
        """What is wrong, or None."""
        found = torch.zeros(len(self.y), dtype=torch.float32)
        wanted = torch.tensor(self.y, dtype=torch.float32)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.kernel[(1,)](self.x, found, self.x.numel())
        if torch.equal(found.nan_to_num(-1e9), wanted.nan_to_num(-1e9)):
            return None
        return f"{found.tolist()} instead of {self.y}"


@triton.jit
def _add_one(x_ptr, y_ptr, N):
    offs = tl.arange(0, 4)
    x = tl.load(x_ptr + offs)
    tl.store(y_ptr + offs, x + 1.0)


@triton.jit
def _is_less(x_ptr, y_ptr, N):
    offs = tl.arange(0, 4)
    x = tl.load(x_ptr + offs)
    tl.store(y_ptr + offs, (x < -x).to(tl.float32))


@triton.jit
def _round_to_bfloat16(x_ptr, y_ptr, N):
    offs = tl.arange(0, 4)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs).to(tl.bfloat16).to(tl.float32))


@triton.jit
def _round_to_float8(x_ptr, y_ptr, N):
    offs = tl.arange(0, 4)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs).to(tl.float8e4nv).to(tl.float32))


@triton.jit
def _to_integer(x_ptr, y_ptr, N):
    offs = tl.arange(0, 4)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs).to(tl.int32).to(tl.float32))


@triton.jit
def _sum(x_ptr, y_ptr, N):
    tl.store(y_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, 4))).to(tl.float32))


@triton.jit
def _argmax(x_ptr, y_ptr, N):
    tl.store(y_ptr, tl.argmax(tl.load(x_ptr + tl.arange(0, 4)), 0).to(tl.float32))


@triton.jit
def _larger(a, b):
    return tl.where(a > b, a, b)


@triton.jit
def _scan(x_ptr, y_ptr, N):
    offs = tl.arange(0, 4)
    tl.store(y_ptr + offs, tl.associative_scan(tl.load(x_ptr + offs), 0, _larger).to(tl.float32))


@triton.jit
def _dot(x_ptr, y_ptr, N):
    offs = tl.arange(0, 16)
    x = tl.load(x_ptr + offs[:, None] * 16 + offs[None, :])
    product = tl.dot(x, x)
    tl.store(y_ptr + offs, tl.max(product, axis=1), mask=offs < 1)


@triton.jit
def _maximum(x_ptr, y_ptr, N):
    offs = tl.arange(0, 4)
    tl.store(y_ptr + offs, tl.maximum(tl.load(x_ptr + offs), 1.0))


@triton.jit
def _fma(x_ptr, y_ptr, N):
    x = tl.load(x_ptr)
    tl.store(y_ptr, tl.fma(x, x, -tl.load(x_ptr + 1)))


@triton.jit
def _exp(x_ptr, y_ptr, N):
    tl.store(y_ptr, tl.exp(tl.load(x_ptr)))


@triton.jit
def _histogram(x_ptr, y_ptr, N):
    counts = tl.histogram(tl.load(x_ptr + tl.arange(0, 4)), 4)
    tl.store(y_ptr + tl.arange(0, 4), counts.to(tl.float32))


@triton.jit
def _divide(x_ptr, y_ptr, N):
    offs = tl.arange(0, 4)
    tl.store(y_ptr + offs, (7 // tl.load(x_ptr + offs)).to(tl.float32))


@triton.jit
def _asin(x_ptr, y_ptr, N):
    tl.store(y_ptr, libdevice.asin(tl.load(x_ptr)))


@triton.jit
def _loop(x_ptr, y_ptr, N):
    total = tl.zeros((1,), dtype=tl.int64)
    for i in range(0, N, 2):
        total += i.to(tl.int64)
    tl.store(y_ptr + tl.arange(0, 1), total.to(tl.float32))


@triton.jit
def _both(x_ptr, y_ptr, N):
    x = tl.load(x_ptr + tl.arange(0, 4))
    tl.store(y_ptr + tl.arange(0, 4), (x > 1 and x < 3).to(tl.float32))


@triton.jit
def _with_float(x_ptr, y_ptr, alpha):
    tl.store(y_ptr, tl.load(x_ptr) + alpha)


@triton.jit
def _square(x_ptr, y_ptr, N):
    x = tl.load(x_ptr)
    tl.store(y_ptr, (x * x).to(tl.float32))


@triton.jit
def _assert(x_ptr, y_ptr, N):
    tl.device_assert(tl.load(x_ptr) > N, "as asked")


def _tensor(*values: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def _checks() -> dict[str, Check]:
    half, brain = torch.float16, torch.bfloat16
    ones = torch.zeros(16, 16, dtype=brain)
    ones[:, 0] = ones[0] = 257 / 256
    inexact = torch.zeros(16, 16)
    inexact[0, 0] = 1 + 2**-11
    return {
        "bfloat16 arithmetic": Check(
            _add_one, _tensor(256, 258, 1, -1, dtype=brain), [256, 260, 2, 0]
        ),
        "comparing bfloat16": Check(_is_less, _tensor(-1, 0, 1, NAN, dtype=brain), [1, 0, 0, 0]),
        "rounding to bfloat16": Check(
            _round_to_bfloat16, _tensor(257, 259, NAN, 3.4e38), [256, 260, NAN, float("inf")]
        ),
        "rounding to 8-bit floats": Check(
            _round_to_float8, _tensor(1.0625, 1.1875, 1e9, NAN), [1, 1.25, 448, NAN]
        ),
        "float to integer": Check(_to_integer, _tensor(-1.5, NAN, 3e9, 2), [-1, 0, 2**31, 2]),
        "tl.sum in bfloat16": Check(_sum, _tensor(256, 1, 1, 1, dtype=brain), [258]),
        "tl.sum in float16": Check(_sum, _tensor(2048, 1, 1, 1, dtype=half), [2050]),
        "tl.argmax of bfloat16": Check(_argmax, _tensor(-3, 1, 4, -5, dtype=brain), [2]),
        "tl.associative_scan": Check(_scan, _tensor(-3, 1, -5, 4, dtype=brain), [-3, 1, 1, 4]),
        "tl.dot of bfloat16": Check(_dot, ones, [16 * 1.0]),
        "tl.dot in tf32": Check(_dot, inexact, [1]),
        "tl.maximum of NaN": Check(_maximum, _tensor(NAN, 2, 0, -1), [1, 2, 1, 1]),
        "tl.fma": Check(_fma, _tensor(1 + 2**-12, 1 + 2**-11), [2**-24]),
        "overflow without warnings": Check(_exp, _tensor(1000), [float("inf")]),
        "tl.histogram": Check(_histogram, _tensor(0, 2, 2, 4, dtype=torch.int32), [1, 0, 2, 0]),
        "division by zero": Check(_divide, _tensor(0, 2, -2, 7, dtype=torch.int32), [-1, 3, -3, 1]),
        "libdevice": Check(_asin, _tensor(1), [torch.pi / 2]),
        "loops over tensors": Check(_loop, torch.zeros(5), [6]),
        "`and` of tensors": Check(_both, _tensor(0, 2, 3, 4), [0, 1, 0, 0]),
        "integers that wrap around": Check(_square, _tensor(2**16, dtype=torch.int32), [0]),
    }


def failures() -> list[str]:
    """A line for each repair that has no effect; none if all is well."""
    trials: dict[str, Callable[[], str | None]] = {
        name: check.run for name, check in _checks().items()
    }
    trials["float arguments"] = _float_argument
    trials["overflow_errors"] = _overflow
    trials["tl.device_assert"] = _device_assert
    lines = []
    for name, trial in trials.items():
        try:
            wrong = trial()
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            lines.append(f"not repaired in triton {triton.__version__}: {name}: {wrong}")
    return lines


def _float_argument() -> str | None:
    found = torch.zeros(1)
    _with_float[(1,)](_tensor(2048, dtype=torch.float16), found, 1.0)
    return None if found.item() == 2049 else f"2048 + 1.0 gives {found.item()}"


def _overflow() -> str | None:
    x = _tensor(2**16, dtype=torch.int32)
    with overflow_errors():
        return _raised(IntegerOverflow, lambda: _square[(1,)](x, torch.zeros(1), 1))


def _device_assert() -> str | None:
    return _raised(AssertionError, lambda: _assert[(1,)](_tensor(1), torch.zeros(1), 2))


def _raised(kind: type[Exception], action: Callable[[], None]) -> str | None:
    try:
        action()
    except Exception as error:
        cause: BaseException | None = error
        while cause and not isinstance(cause, kind):
            cause = cause.__cause__
        return None if cause else f"{type(error).__name__} instead of {kind.__name__}: {error}"
    return f"no {kind.__name__} was raised"
