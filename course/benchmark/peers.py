"""What a puzzle is compared with, and at which sizes: the vocabulary of reference/peers.

A file reference/peers/NN_chapter.py defines, by the puzzle's file name, what a user would take
instead of each solution of the chapter. A puzzle may have a second benchmark with other arguments,
named "grouped_query:causal", say.

    BENCHMARKS = {
        "softmax": Benchmark(
            "softmax",
            make=lambda M, N, dtype: (torch.randn(M, N, dtype=dtype),),
            sizes=((4096, 4096), (16384, 4096), (10_007, 3001)),
            peers=(Peer("torch.softmax", lambda x: torch.softmax(x, -1)), COMPILED),
            bytes_moved=lambda M, N, itemsize: 2 * M * N * itemsize,
        ),
    }
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from course.paths import ROOT, load
from kernelgauge.core import gpus

FOLDER = ROOT / "reference" / "peers"

Size = tuple[int, ...]


@dataclass(frozen=True)
class Peer:
    """An alternative with the signature of the puzzle's function.

    function: what to call, if it is always available
    prepare: makes the function from the reference instead; may import, and raise if that fails
    other_work: what it does that the spec does not ask for, or leaves out; then its time is
        reported, and the solution is not measured by it
    """

    name: str
    function: Callable | None = None
    prepare: Callable[[Callable], Callable] | None = None
    other_work: str = ""

    def ready(self, reference: Callable) -> Callable:
        """Return the function to call. Raises what `prepare` raises."""
        return self.prepare(reference) if self.prepare else self.function


# The reference as fused by Inductor, for fixed sizes.
COMPILED = Peer("torch.compile", prepare=lambda reference: torch.compile(reference, dynamic=False))


@dataclass(frozen=True)
class Benchmark:
    """The peers, sizes and least work of one puzzle.

    function: name of the puzzle's function
    make: makes the inputs from a size and `dtype=`, on torch's default device
    sizes: large ones, at least three, powers of two as well as ragged ones
    bytes_moved: the fewest bytes to read and write, from a size and `itemsize=`
    operations: the fewest multiplications plus additions, from a size
    rate: the dtype whose matmul rate limits the operations, None for that of the inputs
    varied: whether `make` draws every set of inputs, instead of the first being varied
    baseline: the function of the reference file that is timed as eager, if the reference itself is
        not plain PyTorch; it draws its own random numbers, so only shapes of results are compared
    eager_other_work: `Peer.other_work` of what is timed as eager
    timed: turns each function into the call that is timed
    ranks: whether inputs are lists with a tensor for each rank, which are spread over all GPUs
    """

    function: str
    make: Callable[..., tuple]
    sizes: tuple[Size, ...]
    peers: tuple[Peer, ...]
    dtypes: tuple[str, ...] = ("float32", "bfloat16")
    bytes_moved: Callable[..., int] | None = None
    operations: Callable[..., int] | None = None
    rate: str | None = None
    varied: bool = False
    baseline: str | None = None
    eager_other_work: str = ""
    timed: Callable[[Callable], Callable] = lambda function: function
    ranks: bool = False

    def inputs(self, size: Size, dtype: str, device: str) -> tuple | Callable[[int], tuple]:
        """Return seeded inputs, as `Buffers` takes them."""

        def make(number: int) -> tuple:
            torch.manual_seed(number)
            with torch.device(device):
                made = self.make(*size, dtype=getattr(torch, dtype))
            # The host is one place for all.
            return tuple(map(gpus.spread, made)) if self.ranks and device != "cpu" else made

        return make if self.varied else make(0)

    def work(self, size: Size, dtype: str) -> tuple[int | None, tuple[float, str] | None]:
        """Return the least bytes, and the least operations with the dtype of their rate."""
        itemsize = getattr(torch, dtype).itemsize
        moved = self.bytes_moved(*size, itemsize=itemsize) if self.bytes_moved else None
        operations = self.operations(*size) if self.operations else None
        return moved, None if operations is None else (operations, self.rate or dtype)


def load_benchmarks(wanted: list[str]) -> dict[str, Benchmark]:
    """Load benchmarks by puzzle ("07_matmul/tiled").

    wanted: chapters ("07_matmul"), puzzles with all their benchmarks ("07_matmul/tiled" or "tiled")
        and single benchmarks ("grouped_query:causal"); all of them if empty

    Raises LookupError if a name is unknown.
    """
    benchmarks = {
        f"{path.stem}/{name}": benchmark
        for path in sorted(FOLDER.glob("[0-9]*.py"))
        for name, benchmark in load(path).BENCHMARKS.items()
    }
    chosen: dict[str, Benchmark] = {}
    for word in wanted:
        found = {path: benchmark for path, benchmark in benchmarks.items() if word in _names(path)}
        if not found:
            raise LookupError(f"no puzzle or chapter {word} has peers: {', '.join(benchmarks)}")
        chosen |= found
    return chosen or benchmarks


def _names(path: str) -> set[str]:
    """Return the names of a benchmark: its chapter's, its puzzle's and its own."""
    puzzle = path.partition(":")[0]
    chapter = puzzle.partition("/")[0]
    return {chapter, *(name for whole in (path, puzzle) for name in (whole, whole.split("/")[1]))}
