"""Prove the race on a real GPU: it tells honest kernels apart and catches cheats.

    python -m tests.gpu.prove_speed            from the root of the repository; under 3 minutes

Prints a table. Exits with 1 if a line of it is wrong.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from kernelgauge.core.verdict import Wrong
from kernelgauge.speed import gpu_lock, roofline
from kernelgauge.speed.measure import race
from kernelgauge.speed.result import RaceResult
from kernelgauge.speed.roofline import Limits
from kernelgauge.speed.timer import CudaTimer
from kernelgauge.words.fault import Fault, note

LARGE, SHORT, WIDTH = 2**26, 2**22, 4096
# 21 parts, each a multiple of 16 elements, so that 20 parts run the same code as all 21.
PARTS = LARGE // 336 * 336
RUNS = 20
SECONDS = 1.0

OUTSIDE = "work outside the timed stream"
TOO_SHORT = "impossible time"
WRONG_RESULT = "a timed call returned a wrong result"
REMEMBERED = "remembers what it computed"


@triton.jit
def copy_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    x = tl.load(x_ptr + offs, mask=offs < N)
    tl.store(y_ptr + offs, x, mask=offs < N)


def copy(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    y = torch.empty_like(x) if out is None else out
    copy_kernel[(triton.cdiv(x.numel(), 4096),)](x, y, x.numel(), BLOCK=4096)
    return y


def part(x: torch.Tensor) -> torch.Tensor:
    """Copy 20 of 21 parts of x."""
    return copy(x[: x.numel() // 21 * 20])


def whole(x: torch.Tensor) -> torch.Tensor:
    """Copy all of x, 5 % more than `part`."""
    return copy(x)[: x.numel() // 21 * 20]


def in_parts(x: torch.Tensor) -> torch.Tensor:
    """Copy a sixteenth of x, and then the rest."""
    y, first = torch.empty_like(x), x.numel() // 16
    copy(x[:first], y[:first])
    copy(x[first:], y[first:])
    return y


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def checking_flag(x: torch.Tensor) -> torch.Tensor:
    """Wait for the GPU before the launch, like a launcher that reads a flag."""
    bool(x[0] > 1e30)
    return copy(x)


def empty(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class CachedByAddress:
    """A copy that is computed once per address."""

    def __init__(self):
        self.results = {}

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if x.data_ptr() not in self.results:
            self.results[x.data_ptr()] = copy(x)
        return self.results[x.data_ptr()]


class CachedByValue:
    """A product that is computed once per pair of values, and then copied."""

    def __init__(self):
        self.results = {}

    def __call__(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        key = (a[0, 0].item(), b[0, 0].item())
        if key not in self.results:
            self.results[key] = matmul(a, b)
        return copy(self.results[key])


class Elsewhere:
    """A copy on a stream of its own.

    behind: whether that stream waits for the current one first
    joined, waits: whether the current stream, or the host, then waits for it
    """

    def __init__(self, *, behind: bool, joined: bool, waits: bool = False, priority: int = 0):
        self.stream = torch.cuda.Stream(priority=priority)
        self.behind, self.joined, self.waits = behind, joined, waits

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        if self.behind:
            self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            copy(x, y)
        if self.joined:
            torch.cuda.current_stream().wait_stream(self.stream)
        if self.waits:
            self.stream.synchronize()
        return y


@dataclass
class Proof:
    """Runs races, prints a line for each kind, and counts the wrong ones."""

    limits: Limits
    timer: CudaTimer
    failures: int = 0

    def race(self, subject: Callable, reference: Callable, *shapes: tuple, **options) -> RaceResult:
        dtype = torch.bfloat16 if len(shapes) > 1 else torch.float32
        inputs = tuple(torch.randn(shape, device="cuda", dtype=dtype) for shape in shapes)
        settings = {"at_least": 1.0, "max_seconds": SECONDS, "timer": self.timer} | options
        return race(subject, reference, inputs, limits=self.limits, **settings)

    def repeat(self, title: str, runs: int, wanted: Callable[[RaceResult], bool], *args, **options):
        """Run so many races, each of which must be as wanted."""
        began = time.monotonic()
        found = [self.race(*args, **options) for _ in range(runs)]
        right = sum(wanted(one) for one in found)
        ratios = [one.interval.ratio for one in found]
        width = max(one.interval.high - one.interval.low for one in found)
        each = (time.monotonic() - began) / runs
        detail = (
            f"ratios {min(ratios):.4f} to {max(ratios):.4f}, widest interval {width:.4f}, "
            f"{found[0].interval.subject_ms:.4f} ms, {each:.1f} s each"
        )
        self.line(title, f"{right} of {runs}", right == runs, detail)

    def judge(self, title: str, reasons: tuple, subject: Callable, *against, **options) -> None:
        """Run a race that must raise Wrong with one of these reasons; without any, it must not.

        against: the reference and the shapes; a copy of many elements by default
        """
        try:
            found = self.race(subject, *(against or (copy, (LARGE,))), **options)
        except Wrong as wrong:
            message = str(wrong).splitlines()[0]
            self.line(title, "rejected", any(reason in message for reason in reasons), message)
        else:
            self.line(title, found.verdict, not reasons, found.summary())

    def line(self, title: str, result: str, right: bool, detail: str) -> None:
        self.failures += not right
        print(f"{'ok   ' if right else 'WRONG'} {title:<44} {result:<12} {detail}", flush=True)


def check_copy(inputs: tuple, result: torch.Tensor) -> None:
    if not torch.equal(inputs[0], result):
        raise Wrong(Fault("wrong-result", (note("text", text="y is not x"),)))


def holds_one(found: RaceResult) -> bool:
    return found.interval.low <= 1 <= found.interval.high


def main() -> int:
    """Run all proofs. Returns the exit status."""
    began = time.monotonic()
    with gpu_lock.hold(gpu_lock.select_gpu()):
        limits = roofline.measure()
        print(limits.to_json())
        proof = Proof(limits, CudaTimer())
        took = time.monotonic() - began
        proof.line(
            "limits measured", f"{took:.1f} s", took < 10, "including the start of CUDA and cuBLAS"
        )
        moved = {"bytes_moved": 2 * 4 * LARGE}

        same = "the same against itself: "
        proof.repeat(same + "copy, 64 Mi", RUNS, holds_one, copy, copy, (LARGE,), **moved)
        proof.repeat(same + "copy, 4 Mi", RUNS, holds_one, copy, copy, (SHORT,))
        for size in (LARGE, SHORT):
            title = f"{same}two kernels, {size // 2**20} Mi"
            proof.repeat(title, RUNS // 2, holds_one, in_parts, in_parts, (size,))
        square = ((WIDTH, WIDTH), (WIDTH, WIDTH))
        work = {"operations": (2 * WIDTH**3, "bfloat16")}
        proof.repeat(same + "matmul", RUNS, holds_one, matmul, matmul, *square, **work)

        size = (PARTS,)
        proof.repeat("5 % more work", 10, lambda f: f.verdict == "failed", whole, part, size)
        proof.repeat("5 % less work", 10, lambda f: f.verdict == "passed", part, whole, size)
        slow_ms = 0.05 * proof.race(matmul, matmul, *square).interval.subject_ms
        cycles = int(slow_ms * proof.timer.cycles_per_ms)

        def slowed(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            torch.cuda._sleep(cycles)
            return matmul(a, b)

        title = "matmul and 5 % of its time"
        proof.repeat(title, 10, lambda f: f.verdict == "failed", slowed, matmul, *square)

        beside = Elsewhere(behind=False, joined=False)
        behind = Elsewhere(behind=True, joined=False)
        waiting = Elsewhere(behind=False, joined=False, waits=True)
        urgent = Elsewhere(behind=False, joined=False, priority=-1)
        joined = Elsewhere(behind=True, joined=True)
        checked = {"check": check_copy}
        judge = proof.judge
        judge("on another stream, beside the current", (OUTSIDE, TOO_SHORT), beside, **moved)
        judge("on another stream, behind the current", (OUTSIDE, TOO_SHORT), behind, **moved)
        judge("on another stream, waited for", (OUTSIDE,), waiting, **moved)
        judge("on a stream of high priority", (OUTSIDE,), urgent, **moved)
        judge("caches by address", (WRONG_RESULT,), CachedByAddress(), **checked)
        judge("caches by address, unchecked", (TOO_SHORT,), CachedByAddress(), **moved)
        # Large, so that the time is not that of the host, which waits for the two values of a key.
        large = ((2 * WIDTH, 2 * WIDTH),) * 2
        judge("caches by value", (REMEMBERED,), CachedByValue(), matmul, *large)
        judge("returns early", (WRONG_RESULT,), empty, **checked)
        judge("returns early, unchecked", (TOO_SHORT,), empty, **moved)
        judge("another stream, joined", (), joined, **checked, **moved)
        judge("reads a flag", (), checking_flag, at_least=0.1, **checked, **moved)
    print(f"{proof.failures} wrong, {time.monotonic() - began:.0f} s")
    return 1 if proof.failures else 0


if __name__ == "__main__":
    sys.exit(main())
