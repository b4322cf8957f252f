"""The race, put to the proof on a real GPU: honest kernels are told apart, cheats are caught.

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

from judge.core.verdict import Wrong
from judge.speed import gpu_lock, roofline
from judge.speed.measure import race
from judge.speed.result import RaceResult
from judge.speed.roofline import Limits
from judge.speed.timer import CudaTimer

LARGE, SHORT, WIDTH = 2**26, 2**22, 4096
# Of 21 parts, each a multiple of 16 elements, so that all of it and 20 parts run the same code.
PARTS = LARGE // 336 * 336
RUNS = 20
SECONDS = 1.0

OUTSIDE = "work outside the timed stream"
TOO_SHORT = "impossible time"
WRONG_RESULT = "while the time was taken is wrong"
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
    """Copies 20 of 21 parts of x."""
    return copy(x[: x.numel() // 21 * 20])


def whole(x: torch.Tensor) -> torch.Tensor:
    """Copies all of x, 5 % more than `part`."""
    return copy(x)[: x.numel() // 21 * 20]


def in_parts(x: torch.Tensor) -> torch.Tensor:
    """Copies a sixteenth of x, and then the rest."""
    y, first = torch.empty_like(x), x.numel() // 16
    copy(x[:first], y[:first])
    copy(x[first:], y[first:])
    return y


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def checking_flag(x: torch.Tensor) -> torch.Tensor:
    """Waits for the GPU before it launches, as a launcher does that reads a flag."""
    bool(x[0] > 1e30)
    return copy(x)


def empty(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Remembering:
    """Copies when it sees an address for the first time."""

    def __init__(self):
        self.results = {}

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if x.data_ptr() not in self.results:
            self.results[x.data_ptr()] = copy(x)
        return self.results[x.data_ptr()]


class Knowing:
    """Multiplies numbers that it sees for the first time, and copies what it knows."""

    def __init__(self):
        self.results = {}

    def __call__(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        key = (a[0, 0].item(), b[0, 0].item())
        if key not in self.results:
            self.results[key] = matmul(a, b)
        return copy(self.results[key])


class Elsewhere:
    """Copies on a stream of its own, which the current stream may wait for, or not."""

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
    """Runs races, and prints a line for each kind."""

    roofline: Limits
    timer: CudaTimer
    failures: int = 0

    def race(self, subject: Callable, reference: Callable, *shapes: tuple, **options) -> RaceResult:
        dtype = torch.bfloat16 if len(shapes) > 1 else torch.float32
        inputs = tuple(torch.randn(shape, device="cuda", dtype=dtype) for shape in shapes)
        settings = {"at_least": 1.0, "max_seconds": SECONDS, "timer": self.timer} | options
        return race(subject, reference, inputs, limits=self.limits, **settings)

    def repeat(self, title: str, runs: int, wanted: Callable[[RaceResult], bool], *args, **options):
        """So many races, every one of which must be as wanted."""
        began = time.monotonic()
        found = [self.race(*args, **options) for _ in range(runs)]
        right = sum(wanted(one) for one in found)
        ratios = [one.ratio for one in found]
        width = max(one.high - one.low for one in found)
        each = (time.monotonic() - began) / runs
        detail = (
            f"ratios {min(ratios):.4f} to {max(ratios):.4f}, widest interval {width:.4f}, "
            f"{found[0].subject_ms:.4f} ms, {each:.1f} s each"
        )
        self.line(title, f"{right} of {runs}", right == runs, detail)

    def rejected(self, title: str, reasons: tuple, subject: Callable, *against, **options) -> None:
        """A race that must end in Wrong with one of these reasons.

        against: the reference and the shapes, a copy of many elements if not given
        """
        try:
            found = self.race(subject, *(against or (copy, (LARGE,))), **options)
        except Wrong as wrong:
            message = str(wrong).splitlines()[0]
            right = any(reason in message for reason in reasons)
            self.line(title, "rejected", right, message)
        else:
            self.line(title, found.verdict, False, found.summary())

    def accepted(self, title: str, subject: Callable, **options) -> None:
        """A race that must not end in Wrong."""
        try:
            found = self.race(subject, copy, (LARGE,), check=check_copy, **options)
        except Wrong as wrong:
            self.line(title, "rejected", False, str(wrong).splitlines()[0])
        else:
            self.line(title, found.verdict, True, found.summary())

    def line(self, title: str, result: str, right: bool, detail: str) -> None:
        self.failures += not right
        print(f"{'ok   ' if right else 'WRONG'} {title:<44} {result:<12} {detail}", flush=True)


def check_copy(inputs: tuple, result: torch.Tensor) -> None:
    if not torch.equal(inputs[0], result):
        raise Wrong("y is not x")


def holds_one(found: RaceResult) -> bool:
    return found.low <= 1 <= found.high


def main() -> int:
    began = time.monotonic()
    with gpu_lock.hold(gpu_lock.select_gpu()):
        measured = roofline.measure()
        print(measured.to_json())
        proof = Proof(measured, CudaTimer())
        took = time.monotonic() - began
        proof.line("limits measured", f"{took:.1f} s", took < 10, "with start of CUDA and cuBLAS")
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
        slow_ms = 0.05 * proof.race(matmul, matmul, *square).subject_ms
        cycles = int(slow_ms * proof.timer.cycles_per_ms)

        def slowed(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            torch.cuda._sleep(cycles)
            return matmul(a, b)

        proof.repeat(
            "matmul and 5 % of its time",
            10,
            lambda f: f.verdict == "failed",
            slowed,
            matmul,
            *square,
        )

        for behind in (False, True):
            title = f"on another stream, {'behind' if behind else 'beside'} the current"
            proof.rejected(
                title, (OUTSIDE, TOO_SHORT), Elsewhere(behind=behind, joined=False), **moved
            )
        waiting = Elsewhere(behind=False, joined=False, waits=True)
        proof.rejected("on another stream, waited for", (OUTSIDE,), waiting, **moved)
        urgent = Elsewhere(behind=False, joined=False, priority=-1)
        proof.rejected("on a stream of high priority", (OUTSIDE,), urgent, **moved)
        proof.rejected("remembers results", (WRONG_RESULT,), Remembering(), check=check_copy)
        proof.rejected("remembers results, unchecked", (TOO_SHORT,), Remembering(), **moved)
        # Large: the host, which waits for the two numbers of each key, must not be what is timed.
        large = ((2 * WIDTH, 2 * WIDTH),) * 2
        proof.rejected("knows the numbers", (REMEMBERED,), Knowing(), matmul, *large)
        proof.rejected("returns early", (WRONG_RESULT,), empty, check=check_copy)
        proof.rejected("returns early, unchecked", (TOO_SHORT,), empty, **moved)
        proof.accepted("another stream, joined", Elsewhere(behind=True, joined=True), **moved)
        proof.accepted("reads a flag", checking_flag, at_least=0.1, **moved)
    print(f"{proof.failures} wrong, {time.monotonic() - began:.0f} s")
    return 1 if proof.failures else 0


if __name__ == "__main__":
    sys.exit(main())
