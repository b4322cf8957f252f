"""Small kernels whose results a GPU and the repaired interpreter must share.

    python tests/same_as_gpu.py FILE.npz                      compiled, on a GPU
    TRITON_INTERPRET=1 python tests/same_as_gpu.py FILE.npz   in the interpreter
    python tests/same_as_gpu.py FILE.npz 2 6                  every sixth kernel from the second on

Each kernel is `kernel(x_ptr, y_ptr, z_ptr, out_ptr, N)`: x, y, z and out have N elements. What
NVIDIA's documents leave undefined is not asked here.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

INF, NAN = float("inf"), float("nan")

SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    2.5,
    3.4e38,
    -3.4e38,
    1e-40,
    INF,
    -INF,
    NAN,
    7e4,
    257.0,
    1e9,
    5e-5,
    3.0,
]


@dataclass(frozen=True)
class Case:
    """kernel, its inputs, and by how many units in the last place results may differ.

    sums: the order of a sum is not known, so units are those of the largest number in it
    """

    kernel: object
    inputs: tuple[torch.Tensor, ...]
    out: torch.dtype
    ulps: float = 0
    constants: dict = field(default_factory=dict)
    sums: bool = False


@triton.jit
def _arithmetic(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr, OP: tl.constexpr):
    offs = tl.arange(0, N)
    x = tl.load(x_ptr + offs)
    y = tl.load(y_ptr + offs)
    z = tl.load(z_ptr + offs)
    if OP == "add":
        r = x + y
    elif OP == "sub":
        r = x - y
    elif OP == "mul":
        r = x * y
    elif OP == "div":
        r = x // y
    elif OP == "mod":
        r = x % y
    elif OP == "less":
        r = x < y
    elif OP == "equal":
        r = x == y
    elif OP == "unequal":
        r = x != y
    elif OP == "and":
        r = x < y and y < z
    elif OP == "or":
        r = x < y or y < z
    elif OP == "not":
        r = not (x < y)
    elif OP == "negative":
        r = -x
    elif OP == "invert":
        r = ~x
    elif OP == "fma":
        r = tl.fma(x, y, z)
    elif OP == "maximum":
        r = tl.maximum(x, y)
    elif OP == "minimum_nan":
        r = tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "clamp":
        r = tl.clamp(x, y, z)
    elif OP == "clamp_nan":
        r = tl.clamp(x, y, z, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "where":
        r = tl.where(x < y, x, z)
    elif OP == "abs":
        r = tl.abs(x)
    elif OP == "shift_left":
        r = x << y
    elif OP == "shift_right":
        r = x >> y
    elif OP == "umulhi":
        r = tl.umulhi(x, y)
    elif OP == "rand":
        r = tl.rand(1234, offs)
    elif OP == "bits":
        r = (x < y) + (y < z)
    tl.store(out_ptr + offs, r)


@triton.jit
def _cast(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr, TO: tl.constexpr, ROUND: tl.constexpr):
    offs = tl.arange(0, N)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs).to(TO, fp_downcast_rounding=ROUND))


@triton.jit
def _float8(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr, TO: tl.constexpr):
    offs = tl.arange(0, N)
    bits = tl.load(x_ptr + offs).to(TO).to(tl.uint8, bitcast=True)
    tl.store(out_ptr + offs, bits)


@triton.jit
def _from_float8(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr, FROM: tl.constexpr):
    offs = tl.arange(0, N)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs).to(FROM, bitcast=True).to(tl.float32))


@triton.jit
def _math(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr, OP: tl.constexpr):
    offs = tl.arange(0, N)
    x = tl.load(x_ptr + offs)
    if OP == "exp":
        r = tl.exp(x)
    elif OP == "exp2":
        r = tl.exp2(x)
    elif OP == "log":
        r = tl.log(x)
    elif OP == "sqrt":
        r = tl.sqrt(x)
    elif OP == "rsqrt":
        r = tl.rsqrt(x)
    elif OP == "erf":
        r = tl.erf(x)
    elif OP == "sin":
        r = tl.sin(x)
    elif OP == "sigmoid":
        r = tl.sigmoid(x)
    tl.store(out_ptr + offs, r)


@triton.jit
def _libdevice(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr, OP: tl.constexpr):
    offs = tl.arange(0, N)
    x = tl.load(x_ptr + offs)
    y = tl.load(y_ptr + offs)
    if OP == "asin":
        r = libdevice.asin(x)
    elif OP == "acos":
        r = libdevice.acos(x)
    elif OP == "atan2":
        r = libdevice.atan2(x, y)
    elif OP == "tanh":
        r = libdevice.tanh(x)
    elif OP == "expm1":
        r = libdevice.expm1(x)
    elif OP == "log1p":
        r = libdevice.log1p(x)
    elif OP == "erfinv":
        r = libdevice.erfinv(x)
    elif OP == "erfc":
        r = libdevice.erfc(x)
    elif OP == "pow":
        r = libdevice.pow(x, y)
    elif OP == "fmod":
        r = libdevice.fmod(x, y)
    elif OP == "remainder":
        r = libdevice.remainder(x, y)
    elif OP == "round":
        r = libdevice.round(x)
    elif OP == "rint":
        r = libdevice.rint(x)
    elif OP == "hypot":
        r = libdevice.hypot(x, y)
    elif OP == "lgamma":
        r = libdevice.lgamma(x)
    elif OP == "tgamma":
        r = libdevice.tgamma(x)
    elif OP == "nextafter":
        r = libdevice.nextafter(x, y)
    elif OP == "ilogb":
        r = libdevice.ilogb(x)
    elif OP == "isnan":
        r = libdevice.isnan(x)
    elif OP == "isinf":
        r = libdevice.isinf(x)
    elif OP == "div_rn":
        r = libdevice.div_rn(x, y)
    elif OP == "rcp_rn":
        r = libdevice.rcp_rn(x)
    elif OP == "fma_rn":
        r = libdevice.fma_rn(x, y, x)
    elif OP == "float2int_rn":
        r = libdevice.float2int_rn(x)
    elif OP == "saturate":
        r = libdevice.saturatef(x)
    elif OP == "copysign":
        r = libdevice.copysign(x, y)
    tl.store(out_ptr + offs, r)


@triton.jit
def _last(a, b):
    return b


@triton.jit
def _linear(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def _reduce(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr, OP: tl.constexpr):
    offs = tl.arange(0, N)
    x = tl.load(x_ptr + offs)
    if OP == "sum":
        r = tl.sum(x)
    elif OP == "max":
        r = tl.max(x)
    elif OP == "min":
        r = tl.min(x)
    elif OP == "argmax":
        r = tl.argmax(x, 0)
    elif OP == "argmin":
        r = tl.argmin(x, 0)
    elif OP == "xor":
        r = tl.xor_sum(x)
    tl.store(out_ptr + offs, r)


@triton.jit
def _scan(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr, OP: tl.constexpr):
    offs = tl.arange(0, N)
    x = tl.load(x_ptr + offs)
    if OP == "cumsum":
        r = tl.cumsum(x, 0)
    elif OP == "reverse":
        r = tl.cumsum(x, 0, reverse=True)
    elif OP == "last":
        r = tl.associative_scan(x, 0, _last)
    elif OP == "linear":
        _, r = tl.associative_scan((x, tl.load(y_ptr + offs)), 0, _linear)
    elif OP == "sort":
        r = tl.sort(x)
    elif OP == "histogram":
        r = tl.histogram(x, N)
    tl.store(out_ptr + offs, r)


@triton.jit
def _dot(
    x_ptr,
    y_ptr,
    z_ptr,
    out_ptr,
    N: tl.constexpr,
    B: tl.constexpr,
    PRECISION: tl.constexpr,
    OUT: tl.constexpr,
):
    row = tl.arange(0, B)
    offs = row[:, None] * B + row[None, :]
    x = tl.load(x_ptr + offs)
    y = tl.load(y_ptr + offs)
    tl.store(out_ptr + offs, tl.dot(x, y, input_precision=PRECISION, out_dtype=OUT))


@triton.jit
def _arguments(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr, alpha, count, flag):
    offs = tl.arange(0, N)
    x = tl.load(x_ptr + offs)
    total = x * alpha
    for i in range(0, count, 3):
        total += i.to(tl.int64) * 0.5
    if flag and count > 2:
        total += 1
    tl.store(out_ptr + offs, total)


F16, B16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
I8, I32, I64, U8, U32 = torch.int8, torch.int32, torch.int64, torch.uint8, torch.uint32


def cases() -> dict[str, Case]:
    torch.manual_seed(0)
    found: dict[str, Case] = {}
    for dtype in (F16, B16, F32, F64):
        found |= _named(_float_arithmetic(dtype) | _float_casts(dtype) | _float_folds(dtype), dtype)
    for dtype in (I8, torch.int16, I32, I64, U8, U32):
        found |= _named(_integer_arithmetic(dtype), dtype)
    for dtype in (F32, F64):
        found |= _named(_functions(dtype), dtype)
    for dtype in (F16, B16, F32):
        found |= _named(_dots(dtype), dtype)
    return found | _others()


def _named(found: dict[str, Case], dtype: torch.dtype) -> dict[str, Case]:
    return {f"{name} {str(dtype).removeprefix('torch.')}": case for name, case in found.items()}


def _wide(dtype: torch.dtype, count: int) -> torch.Tensor:
    exponents = torch.randint(-12, 12, (count,)).double()
    return (torch.randn(count, dtype=F64) * 2**exponents).to(dtype)


def _special(dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor(SPECIAL, dtype=F64).to(dtype)


def _triples(dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Every pair of special numbers with a third, and numbers of all magnitudes."""
    special = _special(dtype)
    parts = special.repeat_interleave(16), special.repeat(16), special.roll(3).repeat(16)
    return tuple(torch.cat([part, _wide(dtype, 256)]) for part in parts)


def _float_arithmetic(dtype: torch.dtype) -> dict[str, Case]:
    some = _triples(dtype)
    found = {}
    for op in ("add", "sub", "mul", "negative", "maximum", "minimum_nan", "where", "abs", "fma"):
        found[op] = Case(_arithmetic, some, dtype, 0, {"OP": op})
    for op in ("less", "equal", "unequal", "and", "or", "not", "bits"):
        found[op] = Case(_arithmetic, some, I8, 0, {"OP": op})
    bounds = some[0], torch.full_like(some[0], -2), torch.full_like(some[0], 3)
    for op in ("clamp", "clamp_nan"):
        found[op] = Case(_arithmetic, bounds, dtype, 0, {"OP": op})
    near = -(some[0] * some[1]).double() * (1 + 2**-20)
    found["fma that cancels"] = Case(
        _arithmetic, (*some[:2], near.to(dtype)), dtype, 0, {"OP": "fma"}
    )
    return found


def _float_casts(dtype: torch.dtype) -> dict[str, Case]:
    values = _triples(dtype)[0]
    found = {}
    targets = {
        tl.int32: I32, tl.uint32: U32, tl.int64: I64, tl.int1: I8,
        tl.float16: F16, tl.bfloat16: B16, tl.float32: F32, tl.float64: F64,
    }  # fmt: skip
    for to, target in targets.items():
        found[f"to {to} of"] = Case(_cast, (values,) * 3, target, 0, {"TO": to, "ROUND": None})
        if dtype is F32 and to in (tl.float16, tl.bfloat16):
            toward_zero = {"TO": to, "ROUND": "rtz"}
            found[f"to {to} toward zero of"] = Case(_cast, (values,) * 3, target, 0, toward_zero)
    codes = torch.arange(256, dtype=U8)
    for to, kind in ((tl.float8e5, torch.float8_e5m2), (tl.float8e4nv, torch.float8_e4m3fn)):
        exact = codes.view(kind).to(F32).nan_to_num(0, 0, 0)
        middles = (exact + exact.roll(-1)) / 2
        values = torch.cat([exact, middles, _special(F32), _wide(F32, 512 - 16)]).to(dtype)
        if dtype is not F64:
            found[f"to {to} of"] = Case(_float8, (values,) * 3, U8, 0, {"TO": to})
    return found


def _float_folds(dtype: torch.dtype) -> dict[str, Case]:
    values, special = _wide(dtype, 256), _triples(dtype)[0][:256]
    found = {"tl.sum": Case(_reduce, (values,) * 3, dtype, 4, {"OP": "sum"}, sums=True)}
    for op in ("max", "min"):
        found[f"tl.{op}"] = Case(_reduce, (values,) * 3, dtype, 0, {"OP": op})
        found[f"tl.{op} with nan"] = Case(_reduce, (special,) * 3, dtype, 0, {"OP": op})
        found[f"tl.arg{op}"] = Case(_reduce, (values,) * 3, I32, 0, {"OP": f"arg{op}"})
    lone = torch.ones(512, dtype=dtype)
    lone[0] = 2.0 ** (8 if dtype is B16 else 11)
    found["tl.sum of ones and"] = Case(_reduce, (lone,) * 3, dtype, 2, {"OP": "sum"})
    small = torch.randint(-3, 4, (256,)).to(dtype)
    for op in ("cumsum", "reverse", "last", "sort"):
        found[op] = Case(_scan, (small,) * 3, dtype, 0, {"OP": op})
    factors = small.clamp(-1, 1)
    found["recurrence"] = Case(_scan, (factors, small, small), dtype, 0, {"OP": "linear"})
    return found


def _integer_arithmetic(dtype: torch.dtype) -> dict[str, Case]:
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    values = torch.tensor([0, 1, 2, 3, 7, high, low, high // 2])
    x, y = values.repeat_interleave(8), values.repeat(8)
    # Undefined: by 0, and the smallest by -1.
    divisor = torch.where((y == 0) | (y == -1), 5, y)
    amount = y.abs() % (8 * dtype.itemsize)
    x, y, divisor, amount = (part.to(dtype) for part in (x, y, divisor, amount))
    found = {}
    for op in ("add", "sub", "mul", "invert") + ("negative",) * (low < 0):
        found[op] = Case(_arithmetic, (x, y, x), dtype, 0, {"OP": op})
    for op in ("div", "mod"):
        found[op] = Case(_arithmetic, (x, divisor, x), dtype, 0, {"OP": op})
    found["less"] = Case(_arithmetic, (x, y, x), I8, 0, {"OP": "less"})
    if dtype.itemsize >= 4:
        found["umulhi"] = Case(_arithmetic, (x, y, x), dtype, 0, {"OP": "umulhi"})
        for op in ("shift_left", "shift_right"):
            found[op] = Case(_arithmetic, (x, amount, x), dtype, 0, {"OP": op})
        for op in ("sum", "max", "argmin", "xor"):
            out = I32 if op == "argmin" else dtype
            found[f"tl.{op}"] = Case(_reduce, (x, y, x), out, 0, {"OP": op})
    targets = {
        tl.bfloat16: B16, tl.float16: F16, tl.float32: F32,
        tl.int16: torch.int16, tl.uint32: U32, tl.int1: I8,
    }  # fmt: skip
    for to, target in targets.items():
        found[f"to {to} of"] = Case(_cast, (x, y, x), target, 0, {"TO": to, "ROUND": None})
    return found


def _functions(dtype: torch.dtype) -> dict[str, Case]:
    special, positive = _special(dtype), torch.linspace(0.01, 9, 496, dtype=dtype)
    line = torch.cat([torch.linspace(-9, 9, 496, dtype=dtype), special])
    found = {}
    for op in ("exp", "exp2", "erf", "sigmoid"):
        found[f"tl.{op}"] = Case(_math, (line,) * 3, dtype, 16, {"OP": op})
    for op in ("log", "sqrt", "rsqrt", "sin"):
        values = torch.cat([positive, special[:4].repeat(4)])
        found[f"tl.{op}"] = Case(_math, (values,) * 3, dtype, 16, {"OP": op})
    unit, other = torch.linspace(-1, 1, 512, dtype=dtype), torch.linspace(3, -3, 512, dtype=dtype)
    operands = {
        unit: ("asin", "acos", "atan2", "tanh", "log1p", "erfinv", "hypot"),
        5 * unit: ("expm1", "erfc"),
        unit + 2.5: ("pow", "tgamma"),
    }
    for values, ops in operands.items():
        for op in ops:
            found[f"libdevice.{op}"] = Case(
                _libdevice, (values, other, other), dtype, 32, {"OP": op}
            )
    lgamma = (unit + 2.5, other, other)
    found["libdevice.lgamma"] = Case(_libdevice, lgamma, dtype, 16, {"OP": "lgamma"}, sums=True)
    exact = (
        "fmod",
        "remainder",
        "round",
        "rint",
        "nextafter",
        "div_rn",
        "rcp_rn",
        "fma_rn",
        "copysign",
    )
    for op in exact:
        found[f"libdevice.{op}"] = Case(_libdevice, (5 * unit, other, other), dtype, 0, {"OP": op})
    for op in ("isnan", "isinf"):
        found[f"libdevice.{op}"] = Case(_libdevice, (line,) * 3, I8, 0, {"OP": op})
    found["libdevice.ilogb"] = Case(_libdevice, (unit + 2.5,) * 3, I32, 0, {"OP": "ilogb"})
    return found


def _dots(dtype: torch.dtype) -> dict[str, Case]:
    B = 64
    a, b = (torch.randn(B, B).to(dtype) for _ in "ab")
    found = {}
    for precision in ("tf32", "ieee") if dtype is F32 else ("ieee",):
        options = {"B": B, "PRECISION": precision, "OUT": tl.float32}
        found[f"dot {precision}"] = Case(_dot, (a, b, b), F32, 4, options, sums=True)
        identity = torch.eye(B).to(dtype)
        found[f"dot {precision} by 1"] = Case(_dot, (a, identity, b), F32, 0, options)
    if dtype is F16:
        options = {"B": B, "PRECISION": "ieee", "OUT": tl.float16}
        found["dot in"] = Case(_dot, (a, b, b), F16, 1, options, sums=True)
        lone = torch.ones(B, B).half()
        lone[:, 0] = 2048
        found["dot of ones in"] = Case(_dot, (lone, torch.ones(B, B).half(), b), F16, 0, options)
    options = {"alpha": 0.1, "count": 17, "flag": True}
    found["arguments with"] = Case(_arguments, (_wide(dtype, 64),) * 3, F32, 1, options)
    return found


def _others() -> dict[str, Case]:
    found = {}
    codes = torch.arange(256, dtype=U8)
    for to in (tl.float8e5, tl.float8e4nv):
        found[f"of {to}"] = Case(_from_float8, (codes,) * 3, F32, 0, {"FROM": to})
    line = torch.cat([torch.linspace(-9, 9, 496), _special(F32)])
    for op, out in {"float2int_rn": I32, "saturate": F32}.items():
        found[f"libdevice.{op}"] = Case(_libdevice, (line,) * 3, out, float(out is F32), {"OP": op})
    values = torch.tensor([0, 1, 2, 2, 15, 8, 3, 3, 3, 0, 5, 9, 9, 9, 9, 14], dtype=I32)
    found["histogram"] = Case(_scan, (values,) * 3, I32, 0, {"OP": "histogram"})
    found["rand"] = Case(_arithmetic, (values,) * 3, F32, 0, {"OP": "rand"})
    options = {"B": 64, "PRECISION": "ieee", "OUT": tl.int32}
    a, b = (torch.randint(-128, 128, (64, 64)).to(I8) for _ in "ab")
    found["dot int8"] = Case(_dot, (a, b, b), I32, 0, options)
    return found


def run(device: str, start: int = 0, step: int = 1) -> dict[str, np.ndarray]:
    """The result of each case, as float64 or integers; what raised is left out and printed."""
    results = {}
    for name, case in list(cases().items())[start::step]:
        inputs = [value.to(device).contiguous() for value in case.inputs]
        N = inputs[0].numel()
        out = torch.zeros(N, dtype=case.out, device=device)
        try:
            case.kernel[(1,)](*inputs, out, N, **case.constants)
            result = out.cpu()
            results[name] = (result.double() if result.is_floating_point() else result).numpy()
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[-1]}")
    return results


def differences(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> list[str]:
    """A line for each case in which the interpreter's results are not the GPU's."""
    lines = []
    for name, case in cases().items():
        if name not in ours or name not in theirs:
            lines.append(f"{name}: it did not run {'on the GPU' if name in ours else 'here'}")
            continue
        a, b = ours[name], theirs[name]
        same = (a == b) | ((a != a) & (b != b))
        if case.ulps:
            limits = torch.finfo(case.out)
            size = np.abs(b)
            if case.sums:
                size = max(size.max(), *(value.abs().max().item() for value in case.inputs))
            with np.errstate(invalid="ignore"):
                # A GPU may take the smallest numbers for 0.
                same |= np.abs(a - b) <= np.maximum(case.ulps * limits.eps * size, limits.tiny)
        if not same.all():
            first = np.flatnonzero(~same)[:4]
            flat = [value.reshape(-1) for value in case.inputs]
            given = [[value[i].item() for value in flat] for i in first]
            lines.append(
                f"{name}: {(~same).sum()} of {same.size} differ: {a[first]} here, "
                f"{b[first]} on the GPU, of {given}"
            )
    return lines


if __name__ == "__main__":
    interpreted = triton.knobs.runtime.interpret
    if interpreted:
        sys.path.insert(0, str(Path(__file__).parents[1]))
        from judge.interpreter import patches

        patches.install()
    part = map(int, sys.argv[2:])
    np.savez(sys.argv[1], **run("cpu" if interpreted else "cuda", *part))
