"""What a puzzle is compared with, and at which sizes: the words of the files in reference/peers.

A file reference/peers/NN_chapter.py says for each puzzle of the chapter, by the name of its file,
what a user would take instead of the solution. A puzzle may have a second benchmark of other
arguments, under its name and a word: "grouped_query:causal".

    BENCHMARKS = {
        "softmax": Benchmark(
            "softmax",
            make=lambda M, N, dtype: (torch.randn(M, N, dtype=dtype),),
            sizes=((4096, 4096), (16384, 4096), (10_007, 3001)),
            dtypes=("float32", "bfloat16"),
            peers=(Peer("torch.softmax", lambda x: torch.softmax(x, -1)), COMPILED),
            bytes_moved=lambda M, N, itemsize: 2 * M * N * itemsize,
        ),
    }
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from judge.core.paths import ROOT, load

FOLDER = ROOT / "reference" / "peers"

Size = tuple[int, ...]


@dataclass(frozen=True)
class Peer:
    """Something with the signature of the puzzle's function.

    function: to call, where it is always at hand
    prepare: makes the function from the reference; may import, and raise where something is missing
    """

    name: str
    function: Callable | None = None
    prepare: Callable[[Callable], Callable] | None = None

    def ready(self, reference: Callable) -> Callable:
        """The function to call."""
        return self.prepare(reference) if self.prepare else self.function


# Inductor's fusion of the reference, for fixed sizes.
COMPILED = Peer("torch.compile", prepare=lambda reference: torch.compile(reference, dynamic=False))


@dataclass(frozen=True)
class Benchmark:
    """One puzzle's peers, sizes and least work.

    function: name of the puzzle's function
    make: the inputs, from a size and `dtype=`, on torch's default device; called again for other
        contents where `varied` says so
    sizes: large powers of two and ragged ones, at least three
    bytes_moved: the least bytes that cross the memory, from a size and `itemsize=`
    operations: the least multiplications plus additions, from a size
    rate: the dtype in whose rate the operations count, None for that of the inputs
    varied: whether to draw each set of inputs anew, not to shift the contents of the first
    baseline: the function of the reference file that is timed as eager, where the reference itself
        is no PyTorch. It draws its own random numbers, so results are compared by shape only
    timed: makes of each function the call that is timed, where that is not the function itself
    """

    function: str
    make: Callable[..., tuple]
    sizes: tuple[Size, ...]
    dtypes: tuple[str, ...]
    peers: tuple[Peer, ...]
    bytes_moved: Callable[..., int] | None = None
    operations: Callable[..., int] | None = None
    rate: str | None = None
    varied: bool = False
    baseline: str | None = None
    timed: Callable[[Callable], Callable] = lambda function: function

    def inputs(self, size: Size, dtype: str, device: str) -> tuple | Callable[[int], tuple]:
        """Seeded inputs, as `Buffers` takes them."""

        def make(number: int) -> tuple:
            torch.manual_seed(number)
            with torch.device(device):
                return self.make(*size, dtype=getattr(torch, dtype))

        return make if self.varied else make(0)

    def work(self, size: Size, dtype: str) -> tuple[int | None, tuple[float, str] | None]:
        """The least bytes, and the least operations with the dtype of their rate."""
        itemsize = getattr(torch, dtype).itemsize
        moved = self.bytes_moved(*size, itemsize=itemsize) if self.bytes_moved else None
        operations = self.operations(*size) if self.operations else None
        return moved, None if operations is None else (operations, self.rate or dtype)


def magnitude(size: Size) -> int:
    """One number for a size, for the axis of a picture."""
    return math.prod(size)


def load_benchmarks(wanted: list[str]) -> dict[str, Benchmark]:
    """Load the benchmarks by puzzle ("07_matmul/tiled"), of all chapters or of those wanted.

    wanted: chapters ("07_matmul"), puzzles ("07_matmul/tiled" or "tiled") with all of their
        benchmarks, or single ones ("grouped_query:causal"); none for all

    Raises LookupError on one that no file knows.
    """
    benchmarks = {}
    for path in sorted(FOLDER.glob("[0-9]*.py")):
        for name, benchmark in load(path).BENCHMARKS.items():
            benchmarks[f"{path.stem}/{name}"] = benchmark
    if not wanted:
        return benchmarks
    chosen = {}
    for word in wanted:
        found = {path: benchmark for path, benchmark in benchmarks.items() if word in _names(path)}
        if not found:
            raise LookupError(f"no puzzle or chapter {word} has peers: {', '.join(benchmarks)}")
        chosen |= found
    return chosen


def _names(path: str) -> set[str]:
    """What a benchmark may be called: by its chapter, its puzzle or itself."""
    puzzle = path.partition(":")[0]
    chapter = puzzle.partition("/")[0]
    return {chapter, *(name for whole in (path, puzzle) for name in (whole, whole.split("/")[1]))}
