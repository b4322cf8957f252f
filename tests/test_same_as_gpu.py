"""Small kernels that must give the same results in the patched interpreter as on a GPU.

    python tests/test_same_as_gpu.py FILE.npz                      compiled, on a GPU
    TRITON_INTERPRET=1 python tests/test_same_as_gpu.py FILE.npz   in the interpreter
    python tests/test_same_as_gpu.py FILE.npz 2 6                  every sixth case from number 2 on

Each kernel is `kernel(x_ptr, y_ptr, z_ptr, out_ptr, N)`: x, y, z and out have N elements. Where
NVIDIA's documents leave a result undefined, no case looks at it. `test_interpreter` uses the same
kernels, and their other operations.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

INF, NAN = float("inf"), float("nan")

SPECIAL = [0.0, -0.0, 1.0, -1.5, 2.5, 3.4e38, -3.4e38, 1e-40]
SPECIAL += [INF, -INF, NAN, 7e4, 257.0, 1e9, 5e-5, 3.0]


@dataclass(frozen=True)
class Case:
    """A kernel, its inputs x, y and z, and what its result may differ by.

    out: the type of its result
    ulps: units in the last place by which results may differ
    constants: the other arguments of the kernel
    sums: the order of a sum is not known, so units are those of the largest number in it
    """

    kernel: object
    inputs: tuple[torch.Tensor, ...]
    out: torch.dtype
    ulps: float = 0
    constants: dict = field(default_factory=dict)
    sums: bool = False


@triton.jit
def elementwise(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr, OP: tl.constexpr):
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
        r = x / y
    elif OP == "floordiv":
        r = x // y
    elif OP == "mod":
        r = x % y
    elif OP == "scaled":
        r = x * 0.1 + 2
    elif OP == "less":
        r = x < y
    elif OP == "equal":
        r = x == y
    elif OP == "unequal":
        r = x != y
    elif OP == "and":
        r = x < y and y < z
    elif OP == "and_and":
        r = x < y and y < 1 and x > -1
    elif OP == "or":
        r = x < y or y < z
    elif OP == "or_not":
        r = x < y or not (y < 1)
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
    elif OP == "maximum_nan":
        r = tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "minimum":
        r = tl.minimum(x, y)
    elif OP == "minimum_nan":
        r = tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "clamp":
        r = tl.clamp(x, y, z)
    elif OP == "clamp_nan":
        r = tl.clamp(x, y, z, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "clamp_to_1":
        r = tl.clamp(x, -1.0, 1.0)
    elif OP == "clamp_to_1_nan":
        r = tl.clamp(x, -1.0, 1.0, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "where":
        r = tl.where(x < y, x, z)
    elif OP == "where_greater":
        r = tl.where(x > y, x, y)
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
    elif OP == "bits_times":
        r = ((x < y) + (y < 1)) * (x > -1)
    tl.store(out_ptr + offs, r)


@triton.jit
def cast(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr, TO: tl.constexpr, ROUND: tl.constexpr):
    offs = tl.arange(0, N)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs).to(TO, fp_downcast_rounding=ROUND))


@triton.jit
def to_float8(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr, TO: tl.constexpr):
    offs = tl.arange(0, N)
    bits = tl.load(x_ptr + offs).to(TO).to(tl.uint8, bitcast=True)
    tl.store(out_ptr + offs, bits)


@triton.jit
def from_float8(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr, FROM: tl.constexpr):
    offs = tl.arange(0, N)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs).to(FROM, bitcast=True).to(tl.float32))


@triton.jit
def function(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr, OP: tl.constexpr):
    offs = tl.arange(0, N)
    tl.store(out_ptr + offs, getattr(tl, OP)(tl.load(x_ptr + offs)))


@triton.jit
def libdevice_function(
    x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr, OP: tl.constexpr, ARITY: tl.constexpr
):
    offs = tl.arange(0, N)
    x = tl.load(x_ptr + offs)
    y = tl.load(y_ptr + offs)
    if ARITY == 1:
        r = getattr(libdevice, OP)(x)
    elif ARITY == 2:
        r = getattr(libdevice, OP)(x, y)
    else:
        r = getattr(libdevice, OP)(x, y, x)
    tl.store(out_ptr + offs, r)


@triton.jit
def reduction(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr, OP: tl.constexpr):
    offs = tl.arange(0, N)
    x = tl.load(x_ptr + offs)
    r = getattr(tl, OP)(x, 0) if OP == "argmax" or OP == "argmin" else getattr(tl, OP)(x)
    tl.store(out_ptr + offs, r)


@triton.jit
def _last(a, b):
    return b


@triton.jit
def _linear(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def scan(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr, OP: tl.constexpr):
    offs = tl.arange(0, N)
    x = tl.load(x_ptr + offs)
    if OP == "cumsum":
        r = tl.cumsum(x, 0)
    elif OP == "reverse":
        r = tl.cumsum(x, 0, reverse=True)
    elif OP == "cumprod":
        r = tl.cumprod(x, 0)
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
def dot(
    x_ptr, y_ptr, z_ptr, out_ptr,
    N: tl.constexpr, B: tl.constexpr,
    PRECISION: tl.constexpr, OUT: tl.constexpr, ADD_Z: tl.constexpr = False,
):  # fmt: skip
    row = tl.arange(0, B)
    offs = row[:, None] * B + row[None, :]
    x = tl.load(x_ptr + offs)
    y = tl.load(y_ptr + offs)
    acc = tl.load(z_ptr + offs) if ADD_Z else None
    tl.store(out_ptr + offs, tl.dot(x, y, acc, input_precision=PRECISION, out_dtype=OUT))


@triton.jit
def scalar_arguments(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr, alpha, count, flag):
    offs = tl.arange(0, N)
    x = tl.load(x_ptr + offs)
    total = x * alpha
    for i in range(0, count, 3):
        total += i.to(tl.int64) * 0.5
    if flag and count > 2:
        total += 1
    tl.store(out_ptr + offs, total)


F16, B16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
I8, I16, I32, I64 = torch.int8, torch.int16, torch.int32, torch.int64
U8, U32 = torch.uint8, torch.uint32


def cases() -> dict[str, Case]:
    """Return every case by its name, with the same inputs each time."""
    torch.manual_seed(0)
    found: dict[str, Case] = {}
    for dtype in (F16, B16, F32, F64):
        found |= _named(_float_arithmetic(dtype) | _float_casts(dtype) | _float_folds(dtype), dtype)
    for dtype in (I8, I16, I32, I64, U8, U32):
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
    """Return every pair of special numbers with a third, and numbers of all magnitudes."""
    special = _special(dtype)
    parts = special.repeat_interleave(16), special.repeat(16), special.roll(3).repeat(16)
    return tuple(torch.cat([part, _wide(dtype, 256)]) for part in parts)


def _casts(x: torch.Tensor, targets: dict[tl.dtype, torch.dtype], rounding=None) -> dict[str, Case]:
    how = "toward zero of" if rounding else "of"
    return {
        f"to {to} {how}": Case(cast, (x,) * 3, out, 0, {"TO": to, "ROUND": rounding})
        for to, out in targets.items()
    }


def _float_arithmetic(dtype: torch.dtype) -> dict[str, Case]:
    x, y, z = _triples(dtype)
    bounds = x, torch.full_like(x, -2), torch.full_like(x, 3)
    near = (-(x * y).double() * (1 + 2**-20)).to(dtype)
    found = {"fma that cancels": Case(elementwise, (x, y, near), dtype, 0, {"OP": "fma"})}
    for op in ("add", "sub", "mul", "negative", "maximum", "minimum_nan", "where", "abs", "fma"):
        found[op] = Case(elementwise, (x, y, z), dtype, 0, {"OP": op})
    for op in ("less", "equal", "unequal", "and", "or", "not", "bits"):
        found[op] = Case(elementwise, (x, y, z), I8, 0, {"OP": op})
    for op in ("clamp", "clamp_nan"):
        found[op] = Case(elementwise, bounds, dtype, 0, {"OP": op})
    return found


def _float_casts(dtype: torch.dtype) -> dict[str, Case]:
    x = _triples(dtype)[0]
    floats = {tl.float16: F16, tl.bfloat16: B16, tl.float32: F32, tl.float64: F64}
    found = _casts(x, {tl.int32: I32, tl.uint32: U32, tl.int64: I64, tl.int1: I8} | floats)
    if dtype is F32:
        found |= _casts(x, {tl.float16: F16, tl.bfloat16: B16}, "rtz")
    codes = torch.arange(256, dtype=U8)
    for to, kind in ((tl.float8e5, torch.float8_e5m2), (tl.float8e4nv, torch.float8_e4m3fn)):
        exact = codes.view(kind).to(F32).nan_to_num(0, 0, 0)
        middles = (exact + exact.roll(-1)) / 2
        x = torch.cat([exact, middles, _special(F32), _wide(F32, 512 - 16)]).to(dtype)
        if dtype is not F64:
            found[f"to {to} of"] = Case(to_float8, (x,) * 3, U8, 0, {"TO": to})
    return found


def _float_folds(dtype: torch.dtype) -> dict[str, Case]:
    x, special = _wide(dtype, 256), _triples(dtype)[0][:256]
    small = torch.randint(-3, 4, (256,)).to(dtype)
    lone = torch.ones(512, dtype=dtype)
    lone[0] = 2.0 ** (8 if dtype is B16 else 11)
    found = {
        "tl.sum": Case(reduction, (x,) * 3, dtype, 4, {"OP": "sum"}, sums=True),
        "tl.sum of ones and": Case(reduction, (lone,) * 3, dtype, 2, {"OP": "sum"}),
    }
    for op in ("max", "min"):
        found[f"tl.{op}"] = Case(reduction, (x,) * 3, dtype, 0, {"OP": op})
        found[f"tl.{op} with nan"] = Case(reduction, (special,) * 3, dtype, 0, {"OP": op})
        found[f"tl.arg{op}"] = Case(reduction, (x,) * 3, I32, 0, {"OP": f"arg{op}"})
    for op in ("cumsum", "reverse", "last", "sort"):
        found[op] = Case(scan, (small,) * 3, dtype, 0, {"OP": op})
    factors = small.clamp(-1, 1)
    found["recurrence"] = Case(scan, (factors, small, small), dtype, 0, {"OP": "linear"})
    return found


def _integer_arithmetic(dtype: torch.dtype) -> dict[str, Case]:
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    values = torch.tensor([0, 1, 2, 3, 7, high, low, high // 2])
    x, y = values.repeat_interleave(8), values.repeat(8)
    # Undefined: by 0, and the smallest by -1.
    divisor = torch.where((y == 0) | (y == -1), 5, y)
    amount = y.abs() % (8 * dtype.itemsize)
    x, y, divisor, amount = (part.to(dtype) for part in (x, y, divisor, amount))
    seconds = dict.fromkeys(("add", "sub", "mul", "invert") + ("negative",) * (low < 0), y)
    seconds |= {"floordiv": divisor, "mod": divisor}
    if dtype.itemsize >= 4:
        seconds |= {"umulhi": y, "shift_left": amount, "shift_right": amount}
    found = {
        op: Case(elementwise, (x, second, x), dtype, 0, {"OP": op})
        for op, second in seconds.items()
    }
    found["less"] = Case(elementwise, (x, y, x), I8, 0, {"OP": "less"})
    if dtype.itemsize >= 4:
        for op in ("sum", "max", "argmin", "xor_sum"):
            out = I32 if op == "argmin" else dtype
            found[f"tl.{op}"] = Case(reduction, (x, y, x), out, 0, {"OP": op})
    floats = {tl.bfloat16: B16, tl.float16: F16, tl.float32: F32}
    return found | _casts(x, floats | {tl.int16: I16, tl.uint32: U32, tl.int1: I8})


def _functions(dtype: torch.dtype) -> dict[str, Case]:
    special, positive = _special(dtype), torch.linspace(0.01, 9, 496, dtype=dtype)
    line = torch.cat([torch.linspace(-9, 9, 496, dtype=dtype), special])
    positive = torch.cat([positive, special[:4].repeat(4)])
    unit, other = torch.linspace(-1, 1, 512, dtype=dtype), torch.linspace(3, -3, 512, dtype=dtype)
    found = {}
    for x, ops in {line: "exp exp2 erf sigmoid", positive: "log sqrt rsqrt sin"}.items():
        for op in ops.split():
            found[f"tl.{op}"] = Case(function, (x,) * 3, dtype, 16, {"OP": op})
    rounded = {
        unit: "asin acos atan2 tanh log1p erfinv hypot",
        5 * unit: "expm1 erfc",
        unit + 2.5: "pow tgamma",
    }
    exact = "fmod remainder round rint nextafter div_rn rcp_rn fma_rn copysign"
    for x, ops in rounded.items():
        for op in ops.split():
            found |= _libdevice(op, x, other, dtype, 32)
    found |= _libdevice("lgamma", unit + 2.5, other, dtype, 16, sums=True)
    for op in exact.split():
        found |= _libdevice(op, 5 * unit, other, dtype)
    for op in ("isnan", "isinf"):
        found |= _libdevice(op, line, line, I8)
    return found | _libdevice("ilogb", unit + 2.5, other, I32)


def _libdevice(
    op: str, x: torch.Tensor, y: torch.Tensor, out: torch.dtype, ulps: float = 0, sums: bool = False
) -> dict[str, Case]:
    binary = {"atan2", "pow", "fmod", "remainder", "hypot", "nextafter", "div_rn", "copysign"}
    constants = {"OP": op, "ARITY": 3 if op == "fma_rn" else 2 if op in binary else 1}
    return {f"libdevice.{op}": Case(libdevice_function, (x, y, y), out, ulps, constants, sums)}


def _dots(dtype: torch.dtype) -> dict[str, Case]:
    a, b = (torch.randn(64, 64).to(dtype) for _ in "ab")
    found = {}
    for precision in ("tf32", "ieee") if dtype is F32 else ("ieee",):
        options = {"B": 64, "PRECISION": precision, "OUT": tl.float32}
        found[f"dot {precision}"] = Case(dot, (a, b, b), F32, 4, options, sums=True)
        identity = torch.eye(64).to(dtype)
        found[f"dot {precision} by 1"] = Case(dot, (a, identity, b), F32, 0, options)
    if dtype is F16:
        options = {"B": 64, "PRECISION": "ieee", "OUT": tl.float16}
        found["dot in"] = Case(dot, (a, b, b), F16, 1, options, sums=True)
        ones = torch.ones(64, 64).half()
        lone = ones.clone()
        lone[:, 0] = 2048
        found["dot of ones in"] = Case(dot, (lone, ones, b), F16, 0, options)
    options = {"alpha": 0.1, "count": 17, "flag": True}
    found["arguments with"] = Case(scalar_arguments, (_wide(dtype, 64),) * 3, F32, 1, options)
    return found


def _others() -> dict[str, Case]:
    found = {}
    codes = torch.arange(256, dtype=U8)
    for to in (tl.float8e5, tl.float8e4nv):
        found[f"of {to}"] = Case(from_float8, (codes,) * 3, F32, 0, {"FROM": to})
    line = torch.cat([torch.linspace(-9, 9, 496), _special(F32)])
    found |= _libdevice("float2int_rn", line, line, I32)
    found |= _libdevice("saturatef", line, line, F32, 1)
    x = torch.tensor([0, 1, 2, 2, 15, 8, 3, 3, 3, 0, 5, 9, 9, 9, 9, 14], dtype=I32)
    found["histogram"] = Case(scan, (x,) * 3, I32, 0, {"OP": "histogram"})
    found["rand"] = Case(elementwise, (x,) * 3, F32, 0, {"OP": "rand"})
    options = {"B": 64, "PRECISION": "ieee", "OUT": tl.int32}
    a, b = (torch.randint(-128, 128, (64, 64)).to(I8) for _ in "ab")
    found["dot int8"] = Case(dot, (a, b, b), I32, 0, options)
    return found


def run(device: str, start: int = 0, step: int = 1) -> dict[str, np.ndarray]:
    """Return the result of each case, as float64 or integers; print what raised instead."""
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
    """Return a line for each case in which the interpreter's result is not the GPU's."""
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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_same_as_a_gpu(tmp_path):
    ours, *theirs = (tmp_path / f"{part}.npz" for part in range(7))
    commands = [("1", ours), *(("0", file, str(part), "6") for part, file in enumerate(theirs))]
    running = [
        subprocess.Popen(
            [sys.executable, __file__, *map(str, arguments)],
            env={**os.environ, "TRITON_INTERPRET": mode},
        )
        for mode, *arguments in commands
    ]
    assert {process.wait() for process in running} == {0}
    on_gpu = {name: result for file in theirs for name, result in np.load(file).items()}
    assert differences(dict(np.load(ours)), on_gpu) == []


if __name__ == "__main__":
    interpreted = triton.knobs.runtime.interpret
    if interpreted:
        sys.path.insert(0, str(Path(__file__).parents[1]))
        from kernelgauge.interpreter import patches

        patches.install()
    part = map(int, sys.argv[2:])
    np.savez(sys.argv[1], **run("cpu" if interpreted else "cuda", *part))
