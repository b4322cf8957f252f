"""Test at start-up that the patches have their effect, with a tiny kernel for each.

They replace private names of Triton, which another version may have changed. A name that a version
no longer calls is found too.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from kernelgauge.core.complaint import Complaint
from kernelgauge.interpreter import patches, shortcuts
from kernelgauge.interpreter.overflow import IntegerOverflow, overflow_errors
from kernelgauge.interpreter.promises import FalsePromise

INF, NAN = float("inf"), float("nan")

TWELVE = tl.constexpr(12)


def failures() -> list[Complaint]:
    """Return a complaint for each patch without effect on this version of Triton."""
    calls: set[str] = set()
    with _recorded(calls):
        faults = {name: _fault(*check) for name, check in _checks().items()}
    faults = {name: fault for name, fault in faults.items() if fault}
    if not faults:
        names = {_name(owner, name) for owner, name, _ in patches.PATCHES}
        faults = dict.fromkeys(sorted(names - calls), "Triton never calls it")
    slow = {_name(owner, name) for owner, name, _ in patches.SHORTCUTS}
    start = f"patch without effect in triton {triton.__version__}"
    return [Complaint(f"{start}: {it}: {fault}", it in slow) for it, fault in faults.items()]


def _fault(operation: str, x: torch.Tensor, expected: list[float] | type[Exception]) -> str | None:
    """Return what is wrong with `_kernel` on x, or None.

    expected: the four elements of y, or what it raises
    """
    y = torch.zeros(4)
    kind = expected if isinstance(expected, type) else ()
    strict = overflow_errors() if expected is IntegerOverflow else contextlib.nullcontext()
    try:
        with strict, warnings.catch_warnings():
            warnings.simplefilter("error")
            _kernel[(1,)](x, y, 5, 1.0, operation)
    except Exception as error:
        cause: BaseException | None = error
        while cause and not isinstance(cause, kind):
            cause = cause.__cause__
        return None if cause else f"{type(error).__name__}: {error}"
    if isinstance(expected, type):
        return f"no {expected.__name__} was raised"
    wanted = torch.tensor(expected, dtype=torch.float32)
    if torch.equal(y.nan_to_num(-1e9), wanted.nan_to_num(-1e9)):
        return None
    return f"{y.tolist()} instead of {expected}"


@contextlib.contextmanager
def _recorded(calls: set[str]) -> Iterator[None]:
    """In the body, add to `calls` the name of each patched function that Triton calls."""

    def recording(name: str, function: Callable) -> Callable:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            calls.add(name)
            return function(*args, **kwargs)

        return call

    shortcuts.constants.clear()
    with contextlib.ExitStack() as stack:
        for owner, name, _ in patches.PATCHES:
            if function := vars(owner).get(name):
                setattr(owner, name, recording(_name(owner, name), function))
                stack.callback(setattr, owner, name, function)
        yield


def _name(owner: type | ModuleType, name: str) -> str:
    return f"{owner.__name__}.{name}"


@triton.jit
def _larger(a, b):  # type: ignore[no-untyped-def]
    return tl.where(a > b, a, b)


@triton.jit
def _kernel(x_ptr, y_ptr, N, alpha, OPERATION: tl.constexpr):  # type: ignore[no-untyped-def]
    offs = tl.arange(0, 4)
    x = tl.load(x_ptr + offs)
    if OPERATION == "plus 1":
        y = x + 1.0
    elif OPERATION == "plus a float argument":
        y = x + alpha
    elif OPERATION == "plus int(N)":
        y = x + int(N)
    elif OPERATION == "square":
        y = x * x
    elif OPERATION == "less than -x":
        y = x < -x
    elif OPERATION == "between 1 and 3":
        y = x > 1 and x < 3
    elif OPERATION == "invert":
        y = ~x
    elif OPERATION == "7 // x":
        y = 7 // x
    elif OPERATION == "7 % x":
        y = 7 % x
    elif OPERATION == "to bfloat16":
        y = x.to(tl.bfloat16)
    elif OPERATION == "to float8":
        y = x.to(tl.float8e4nv)
    elif OPERATION == "to int32":
        y = x.to(tl.int32)
    elif OPERATION == "negative":
        y = -x
    elif OPERATION == "asin":
        y = libdevice.asin(x)
    elif OPERATION == "maximum":
        y = tl.maximum(x, 1.0)
    elif OPERATION == "minimum":
        y = tl.minimum(x, 1.0)
    elif OPERATION == "clamp":
        y = tl.clamp(x, 0.0, 1.0)
    elif OPERATION == "umulhi":
        y = tl.umulhi(x, x)
    elif OPERATION == "fma":
        y = tl.fma(x, x, tl.full((4,), -(1 + 2**-11), tl.float32))
    elif OPERATION == "argmax":
        y = tl.argmax(x, 0)
    elif OPERATION == "scan":
        y = tl.associative_scan(x, 0, _larger)
    elif OPERATION == "histogram":
        y = tl.histogram(x, 4)
    elif OPERATION == "dot":
        tile = tl.load(x_ptr + offs[:, None] * 4 + offs[None, :])
        y = tl.max(tl.dot(tile, tile), axis=1)
    elif OPERATION == "loop":
        y = tl.zeros((4,), dtype=tl.int64)
        for i in tl.range(0, N, 2):
            y += i.to(tl.int64)
    elif OPERATION == "assert":
        tl.device_assert(x > N, "as expected")
        y = x
    elif OPERATION == "atomics":
        tl.atomic_add(x_ptr + offs, 1)
        tl.atomic_cas(x_ptr + offs, tl.full((4,), 1, tl.int32), tl.full((4,), 5, tl.int32))
        y = tl.load(x_ptr + offs)
    elif OPERATION == "multiple of 4":
        y = tl.multiple_of(x, 4)
    elif OPERATION == "assume x[0] > 0":
        tl.assume(tl.load(x_ptr) > 0)
        y = x
    elif OPERATION == "assembly":
        y = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], tl.float32, True, 1)
    elif OPERATION == "arithmetic of a constant":
        y = TWELVE + x + TWELVE * x - (TWELVE - x) + TWELVE // x + TWELVE % x
        y += (TWELVE & x) + (TWELVE | x) + (TWELVE ^ x) + (TWELVE << x) + (TWELVE >> x)
        y += (TWELVE / x).to(tl.int32)
    elif OPERATION == "arithmetic of a number and a constant":
        y = x + 7 % TWELVE + (6 & TWELVE) + (3 | TWELVE) + (5 ^ TWELVE)
        y += (1 << TWELVE) + (8192 >> TWELVE)
    elif OPERATION == "a part of a constant":
        y = x + TWELVE.numerator
    elif OPERATION == "comparisons of a constant":
        below = (TWELVE < x).to(tl.int32) + 2 * (TWELVE <= x)  # noqa: SIM300
        above = 4 * (TWELVE > x) + 8 * (TWELVE >= x)  # noqa: SIM300
        y = below + above + 16 * (TWELVE == x) + 32 * (TWELVE != x)  # noqa: SIM300
    else:
        y = getattr(tl, OPERATION)(x)
    tl.store(y_ptr + offs, y.to(tl.float32))


def _checks() -> dict[str, tuple[str, torch.Tensor, list[float] | type[Exception]]]:
    """Return the operation of `_kernel`, x and what is expected, by what they check."""

    def of(dtype: torch.dtype) -> Callable[..., torch.Tensor]:
        return lambda *values: torch.tensor(values, dtype=dtype)

    f32, f16, bf16 = of(torch.float32), of(torch.float16), of(torch.bfloat16)
    i32, u32 = of(torch.int32), of(torch.uint32)
    inexact = f32(1 + 2**-11, *[0] * 15)
    # The first row and the first column of a 4 x 4 tile are ones.
    border = bf16(*[1] * 5, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0)
    return {
        "bfloat16 arithmetic": ("plus 1", bf16(256, 258, 1, -1), [256, 260, 2, 0]),
        "comparing bfloat16": ("less than -x", bf16(-1, 0, 1, NAN), [1, 0, 0, 0]),
        "negating bfloat16": ("negative", bf16(-1, 2, -3, INF), [1, -2, 3, -INF]),
        "rounding to bfloat16": ("to bfloat16", f32(257, 259, NAN, 3.4e38), [256, 260, NAN, INF]),
        "rounding to float8": ("to float8", f32(1.0625, 1.1875, 1e9, NAN), [1, 1.25, 448, NAN]),
        "float to integer": ("to int32", f32(-1.5, NAN, 3e9, 2), [-1, 0, 2**31, 2]),
        "tl.sum in bfloat16": ("sum", bf16(256, 1, 1, 1), [258] * 4),
        "tl.sum in float16": ("sum", f16(2048, 1, 1, 1), [2050] * 4),
        "tl.argmax of bfloat16": ("argmax", bf16(-3, 1, 4, -5), [2] * 4),
        "tl.cumsum in float16": ("cumsum", f16(2048, 1, 1, 1), [2048, 2048, 2050, 2050]),
        "tl.associative_scan": ("scan", bf16(-3, 1, -5, 4), [-3, 1, 1, 4]),
        "tl.multiple_of": ("multiple of 4", i32(4, 5, 6, 7), [4, 5, 6, 7]),
        "tl.multiple_of that is none": ("multiple of 4", i32(6, 7, 8, 9), FalsePromise),
        "tl.assume": ("assume x[0] > 0", i32(1, 0, 0, 0), [1, 0, 0, 0]),
        "tl.assume of what is false": ("assume x[0] > 0", i32(0, 1, 1, 1), FalsePromise),
        "tl.dot of bfloat16": ("dot", border, [4, 1, 1, 1]),
        "tl.dot in tf32": ("dot", inexact, [1, 0, 0, 0]),
        "tl.maximum of NaN": ("maximum", f32(NAN, 2, 0, -1), [1, 2, 1, 1]),
        "tl.minimum of NaN": ("minimum", f32(NAN, 2, 0, -1), [1, 1, 0, -1]),
        "tl.clamp of NaN": ("clamp", f32(NAN, 2, 0.5, -1), [0, 1, 0.5, 0]),
        "tl.fma": ("fma", f32(*[1 + 2**-12] * 4), [2**-24] * 4),
        "tl.sqrt": ("sqrt", f32(4, 1, 0, 9), [2, 1, 0, 3]),
        "tl.erf": ("erf", f32(0, 9, -9, INF), [0, 1, -1, 1]),
        "tl.umulhi": ("umulhi", i32(-1, 2**17, 1, 0), [-2, 4, 0, 0]),
        "overflow without warnings": ("exp", f32(1000, -INF, 0, 0), [INF, 0, 1, 1]),
        "tl.histogram": ("histogram", i32(0, 2, 2, 4), [1, 0, 2, 0]),
        "division by zero": ("7 // x", i32(0, 2, -2, 7), [-1, 3, -3, 1]),
        "remainder by zero": ("7 % x", i32(0, 2, -2, 7), [-1, 1, 1, 0]),
        "unsigned remainder by zero": ("7 % x", u32(0, 2, 4, 7), [2**32, 1, 3, 0]),
        "inverting uint32": ("invert", u32(0, 2**32 - 1, 2**31, 0), [2**32, 0, 2**31, 2**32]),
        "libdevice": ("asin", f32(0, 1, -1, 0), [0, torch.pi / 2, -torch.pi / 2, 0]),
        "loops over tensors": ("loop", f32(0, 0, 0, 0), [6] * 4),
        "`and` of tensors": ("between 1 and 3", f32(0, 2, 3, 4), [0, 1, 0, 0]),
        "float arguments": ("plus a float argument", f16(2048, 1, 2, 3), [2049, 2, 3, 4]),
        "int() of a scalar": ("plus int(N)", i32(0, 1, 2, 3), [5, 6, 7, 8]),
        "a constexpr on the left": (
            "arithmetic of a constant",
            i32(1, 2, 5, 12),
            [94, 119, 486, 49346],
        ),
        "a constexpr on the right of a number": (
            "arithmetic of a number and a constant",
            i32(0, 1, 2, 3),
            [4133, 4134, 4135, 4136],
        ),
        "a part of a constexpr": ("a part of a constant", i32(1, 2, 3, 4), [13, 14, 15, 16]),
        "a constexpr compared": ("comparisons of a constant", i32(1, 12, 13, 2), [44, 26, 35, 44]),
        "integers that wrap around": ("square", i32(2**16, 1, 2, 3), [0, 1, 4, 9]),
        "overflow_errors": ("square", i32(2**16, 1, 2, 3), IntegerOverflow),
        "tl.device_assert": ("assert", f32(6, 6, 1, 6), AssertionError),
        "one value for all atomics": ("atomics", i32(0, 1, 2, 3), [5, 2, 3, 4]),
        "inline assembly": ("assembly", f32(0, 0, 0, 0), NotImplementedError),
    }
