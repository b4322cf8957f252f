"""What a GPU can do at most, measured: the yardstick of every time, and the floor under it."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import torch

from judge.core.dtypes import dtype_name

# How much faster than the measured limit a time may be before it is impossible. A cheat gains more
# than this, and a right kernel must never be rejected. Bandwidth: another mix of reads and writes
# than a copy gains a few per cent, and a few lines outlive the flush of the L2. Matmul: on an H200
# cuBLAS ran at 631 to 798 TFLOP/s, as the size and the power of that moment allowed.
BANDWIDTH_TOLERANCE = 0.10
MATMUL_TOLERANCE = 0.25

MAX_COPY_BYTES = 4 * 10**9
COPIES = 9
PRODUCTS = 9
PRODUCT_SIZES = (4096, 8192)
# The larger product takes eight times as long as the smaller. A slow GPU is full with the smaller.
MAX_PRODUCT_MS = 50


@dataclass(frozen=True)
class Bound:
    """The least time that a piece of work takes. limit: what it waits for, in words."""

    ms: float
    limit: str


@dataclass(frozen=True)
class Limits:
    """What one GPU was measured to do.

    copy: bytes read plus bytes written per second, of a copy inside the GPU's memory
    read: bytes read per second, of a sum over a large tensor
    matmul: operations per second by dtype; a multiplication and an addition are two. "float32" is
        without tensor cores, "tf32" with them
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
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Limits:
        """Raises TypeError or ValueError on what another version wrote: measure again then."""
        return cls(**json.loads(text))

    def bound(
        self, bytes_moved: int | None, operations: tuple[float, str | torch.dtype] | None
    ) -> Bound | None:
        """The larger of the times that the bytes and the operations take, None if neither is known.

        operations: their number, and the dtype in which they are done; a dtype whose rate was not
            measured counts as unknown
        """
        bounds = []
        if bytes_moved:
            bounds.append(Bound(1e3 * bytes_moved / self.copy, "copy bandwidth"))
        if operations and (rate := self.matmul.get(dtype_name(operations[1]))):
            limit = f"{dtype_name(operations[1])} matmul rate"
            bounds.append(Bound(1e3 * operations[0] / rate, limit))
        return max(bounds, key=lambda bound: bound.ms, default=None)

    def impossible(
        self,
        ms: float,
        bytes_moved: int | None,
        operations: tuple[float, str | torch.dtype] | None,
        written: int = 0,
    ) -> str | None:
        """The sum that shows that no kernel did this work in this time, or None if one could.

        ms: the time of one call that began with nothing of its inputs in the L2
        bytes_moved, operations: the least that the work takes, as for `bound`
        written: how many of the bytes are written; as many as the L2 holds may still be there when
            the kernel ends, so that they cost no time
        """
        if bytes_moved:
            crossing = bytes_moved - min(written, self.l2_bytes)
            fastest, verb = max((self.copy, "copies"), (self.read, "reads"))
            rate = crossing / ms * 1e3
            if rate > fastest * (1 + BANDWIDTH_TOLERANCE):
                return (
                    f"{ms:.3g} ms for {format_si(crossing, 'B')} would be "
                    f"{format_si(rate, 'B/s')}; this GPU {verb} at {format_si(fastest, 'B/s')}"
                )
        if operations and (fastest := self.matmul.get(dtype_name(operations[1]))):
            rate = operations[0] / ms * 1e3
            if rate > fastest * (1 + MATMUL_TOLERANCE):
                return (
                    f"{ms:.3g} ms for {format_si(operations[0], 'FLOP')} would be "
                    f"{format_si(rate, 'FLOP/s')}; this GPU multiplies "
                    f"{dtype_name(operations[1])} at {format_si(fastest, 'FLOP/s')}"
                )
        return None


def key(device: torch.device | int | None = None) -> str:
    """What measured limits are valid for: this GPU, under this version of torch."""
    properties = torch.cuda.get_device_properties(device)
    return f"{properties.name} {properties.uuid} torch {torch.__version__}"


def measure(device: torch.device | int | None = None) -> Limits:
    """Measure a GPU, alone on it: within 3 s. Raises RuntimeError where there is none."""
    properties = torch.cuda.get_device_properties(device)
    with torch.cuda.device(device):
        copy, read = _bandwidth()
        matmul = {}
        for dtype in ("float16", "bfloat16", "float32", "tf32"):
            matmul[dtype] = _matmul_rate(dtype)
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


def format_si(amount: float, unit: str) -> str:
    """An amount with three digits and a decimal prefix: 268 MB, 12.8 TB/s."""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if amount >= 0.9995 * factor:
            return f"{_three_digits(amount / factor)} {prefix}{unit}"
    return f"{_three_digits(amount)} {unit}"


def _three_digits(number: float) -> str:
    if number == 0 or number >= 999.5:
        return f"{number:.0f}"
    return f"{number:.3g}"


def _bandwidth() -> tuple[float, float]:
    """Bytes per second of a copy (read plus written) and of a sum (read)."""
    free, _ = torch.cuda.mem_get_info()
    size = min(MAX_COPY_BYTES, free // 4) // 4
    source = torch.randn(size, device="cuda")
    target = torch.empty_like(source)
    total = torch.empty((), device="cuda")
    copy = _median_ms(lambda: target.copy_(source), COPIES)
    read = _median_ms(lambda: torch.sum(source, dim=0, out=total), COPIES)
    return 2 * source.nbytes / copy * 1e3, source.nbytes / read * 1e3


def _matmul_rate(dtype: str) -> float:
    """Operations per second of torch's matrix product, the best of the sizes."""
    best = 0.0
    with _float32_precision("high" if dtype == "tf32" else "highest"):
        for size in PRODUCT_SIZES:
            shape = (size, size)
            kind = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
            # Random numbers: zeros take less power, and run 13 % faster than data does.
            a = torch.randn(shape, device="cuda").to(kind)
            b = torch.randn(shape, device="cuda").to(kind)
            c = torch.empty(shape, device="cuda", dtype=kind)
            ms = _median_ms(lambda a=a, b=b, c=c: torch.mm(a, b, out=c), PRODUCTS)
            best = max(best, 2 * size**3 / ms * 1e3)
            if 8 * ms > MAX_PRODUCT_MS:
                break
    return best


def _median_ms(call: Callable[[], object], repeats: int) -> float:
    """Median time of a call that is long enough to hide its launch, after two that do not count."""
    marks = []
    for _ in range(repeats + 2):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        marks.append((begin, end))
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in marks[2:])


@contextmanager
def _float32_precision(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
