"""The measured limits of a GPU: what times are compared with, and the least that is possible."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import torch

from kernelgauge.core.dtypes import dtype_name
from kernelgauge.words.fault import Note, note

# A time is impossible if it beats the measured limit by more than this. Cheats gain more, and a
# correct kernel must never be rejected. Bandwidth: a mix of reads and writes other than a copy's
# gains a few per cent, and a few cache lines survive the flush of the L2. Matmul: on an H200
# cuBLAS ran at 631 to 798 TFLOP/s, depending on size and on the power available at the time.
BANDWIDTH_TOLERANCE = 0.10
MATMUL_TOLERANCE = 0.25

MAX_COPY_BYTES = 4 * 10**9
# An idle GPU takes some milliseconds to reach its clocks: once a copy was 13 % too slow.
WARMUP_SECONDS = 0.1
WARMUP_CALLS, TIMED_CALLS = 2, 9
PRODUCT_SIZES = (4096, 8192)
# The larger product takes eight times as long. It is skipped if that exceeds this: the smaller one
# is enough to fill a slow GPU.
MAX_PRODUCT_MS = 50


# What Limits.matmul holds, the rates of torch.mm first.
MM_DTYPES = ("float16", "bfloat16", "float32", "tf32")
DTYPES = (*MM_DTYPES, "int8", "float8_e4m3fn")
# From Turing to Hopper tensor cores multiply int8 at twice the rate of float16. Triton comes closer
# to that than cuBLAS: 1096 against 859 TOP/s at 8192 cubed on an H200 (2026-11-22).
INT8_TO_FLOAT16 = 2.0

# A number of multiplications plus additions, and the dtype that they are done in.
Operations = tuple[float, str | torch.dtype]


@dataclass(frozen=True)
class Bound:
    """The least time that a piece of work takes.

    limit: name of the hardware limit that sets it
    amount, unit: the work, in bytes ("B") or operations ("FLOP")
    """

    ms: float
    limit: str
    amount: float
    unit: str


@dataclass(frozen=True)
class Limits:
    """The measured limits of one GPU.

    copy: bytes read plus bytes written per second, by a copy within the GPU's memory
    read: bytes read per second, by a sum over a large tensor
    matmul: operations per second by dtype, a multiply-add counting as two; "float32" is without
        tensor cores, "tf32" with them; 0 where this GPU does not multiply the dtype
    l2_bytes: size of the L2 cache
    """

    name: str
    uuid: str
    torch: str
    multiprocessors: int
    l2_bytes: int
    copy: float
    read: float
    matmul: dict[str, float]

    def to_json(self) -> str:
        """Return JSON text that `from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Limits:
        """Read limits from JSON. Raises TypeError or ValueError if another version wrote them."""
        limits = cls(**json.loads(text))
        if set(limits.matmul) != set(DTYPES):
            raise ValueError(f"these are the rates of {', '.join(limits.matmul)}")
        return limits

    def bound(self, bytes_moved: int | None, operations: Operations | None) -> Bound | None:
        """Return the larger of the times that the bytes and the operations take, None without any.

        operations: ignored if the rate of their dtype was not measured
        """
        bounds = []
        if bytes_moved:
            ms = 1e3 * bytes_moved / self.copy
            bounds.append(Bound(ms, "copy bandwidth", bytes_moved, "B"))
        if operations and (rate := self.matmul.get(dtype_name(operations[1]))):
            limit = f"{dtype_name(operations[1])} matmul rate"
            bounds.append(Bound(1e3 * operations[0] / rate, limit, operations[0], "FLOP"))
        return max(bounds, key=lambda bound: bound.ms, default=None)

    def impossible(
        self,
        ms: float,
        bytes_moved: int | None,
        operations: Operations | None,
        written: int = 0,
    ) -> Note | None:
        """Return the arithmetic that shows that no kernel can be so fast; None if one can.

        ms: time of one call, none of whose inputs were in the L2 when it began
        bytes_moved, operations: the least work, as for `bound`
        written: how many of the bytes are written; what the L2 can hold of them may still be there
            when the kernel ends, and then costs no time
        """
        claims: list[tuple[float, str, str, float, float]] = []
        if bytes_moved:
            crossing = bytes_moved - min(written, self.l2_bytes)
            fastest, work = max((self.copy, "copy"), (self.read, "read"))
            claims.append((crossing, "B", work, fastest, BANDWIDTH_TOLERANCE))
        if operations and (product := self.matmul.get(dtype_name(operations[1]))):
            work = dtype_name(operations[1])
            claims.append((operations[0], "FLOP", work, product, MATMUL_TOLERANCE))
        for amount, unit, work, fastest, tolerance in claims:
            rate = amount / ms * 1e3
            if rate > fastest * (1 + tolerance):
                measured = {"amount": amount, "unit": unit, "milliseconds": ms, "rate": rate}
                return note("beats-limit", **measured, fastest=fastest, work=work)
        return None


def key() -> str:
    """Return what measured limits are valid for: the current GPU, with this version of torch."""
    properties = torch.cuda.get_device_properties("cuda")
    return f"{properties.name} {properties.uuid} torch {torch.__version__}"


def measure() -> Limits:
    """Measure the current GPU, which must be idle, within 3 s. Raises RuntimeError without one."""
    properties = torch.cuda.get_device_properties("cuda")
    copy, read = _bandwidth()
    matmul = {dtype: _matmul_rate(dtype) for dtype in MM_DTYPES}
    matmul["int8"] = max(_int8_rate(), INT8_TO_FLOAT16 * matmul["float16"])
    matmul["float8_e4m3fn"] = _float8_rate()
    torch.cuda.empty_cache()
    return Limits(
        name=properties.name,
        uuid=str(properties.uuid),
        torch=torch.__version__,
        multiprocessors=properties.multi_processor_count,
        l2_bytes=properties.L2_cache_size,
        copy=copy,
        read=read,
        matmul=matmul,
    )


def _bandwidth() -> tuple[float, float]:
    """Measure the bytes per second of a copy (read plus written) and of a sum (read)."""
    free, _ = torch.cuda.mem_get_info()
    size = min(MAX_COPY_BYTES, free // 4) // 4
    source = torch.randn(size, device="cuda")
    target = torch.empty_like(source)
    total = torch.empty((), device="cuda")
    until = time.monotonic() + WARMUP_SECONDS
    while time.monotonic() < until:
        target.copy_(source)
        torch.cuda.synchronize()
    copy = _median_ms(lambda: target.copy_(source))
    read = _median_ms(lambda: torch.sum(source, dim=0, out=total))
    return 2 * source.nbytes / copy * 1e3, source.nbytes / read * 1e3


def _matmul_rate(dtype: str) -> float:
    """Measure the operations per second of `torch.mm`, at the best of the sizes."""
    kind = torch.float32 if dtype == "tf32" else getattr(torch, dtype)

    def product(size: int) -> Callable[[], object]:
        a, b = _random(size).to(kind), _random(size).to(kind)
        c = torch.empty((size, size), device="cuda", dtype=kind)
        return lambda: torch.mm(a, b, out=c)

    with _float32_precision("high" if dtype == "tf32" else "highest"):
        return _best_rate(product)


def _int8_rate() -> float:
    """Measure the operations per second of `torch._int_mm`, 0 where it does not run."""

    def product(size: int) -> Callable[[], object]:
        a, b = (_random(size).mul_(32).to(torch.int8) for _ in range(2))
        return lambda: torch._int_mm(a, b.T)

    return _best_rate_or_0(product)


def _float8_rate() -> float:
    """Measure the operations per second of `torch._scaled_mm`, 0 where it does not run."""

    def product(size: int) -> Callable[[], object]:
        a, b = (_random(size).to(torch.float8_e4m3fn) for _ in range(2))
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(
            a, b.T, one, one, out_dtype=torch.bfloat16, use_fast_accum=True
        )

    return _best_rate_or_0(product)


def _random(size: int) -> torch.Tensor:
    """A square of random numbers, since zeros take less power and run 13 % faster."""
    return torch.randn((size, size), device="cuda")


def _best_rate(product: Callable[[int], Callable[[], object]]) -> float:
    """Return the operations per second of a product of squares, at the best of the sizes.

    product: returns a call that multiplies squares of this size
    """
    best = 0.0
    for size in PRODUCT_SIZES:
        ms = _median_ms(product(size))
        best = max(best, 2 * size**3 / ms * 1e3)
        if 8 * ms > MAX_PRODUCT_MS:
            break
    return best


def _best_rate_or_0(product: Callable[[int], Callable[[], object]]) -> float:
    # Older GPUs multiply no 8-bit floats, and torch before 2.3 no int8.
    try:
        return _best_rate(product)
    except (RuntimeError, AttributeError):
        return 0.0


def _median_ms(call: Callable[[], object]) -> float:
    """Return the median time of a call that takes long enough to hide its launch."""
    marks = []
    for _ in range(WARMUP_CALLS + TIMED_CALLS):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        marks.append((begin, end))
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in marks[WARMUP_CALLS:])


@contextmanager
def _float32_precision(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
