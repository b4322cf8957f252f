"""What the command line asked of this run, and what the machine offers."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from judge.core.paths import PUZZLES


@dataclass
class Settings:
    """Settings of this process, filled in by conftest.py and `judge.plugin.session` at the start.

    interpreted: kernels run in Triton's interpreter, on the CPU
    device: where inputs are made, "cpu" or "cuda"
    capability: compute capability of the GPU, (9, 0) for an H200; None without a GPU
    multiprocessors: how many the GPU has; 4 in the interpreter, as the stubs of chapter 17 say
    targets: names of the GPUs that test_compiles compiles for
    speed_scale: factor on every speed-up that a spec requires, since those were set on an H200
    compares: whether what is solved is measured beside our solution
    draws: whether pictures are drawn of what kernels do
    times_peers: whether a race times what else a user would take, for its roofline
    debugged: whether the debugger of VS Code or PyCharm runs this process; it starts threads, and
        stops for as long as its user looks
    subjects: the folder whose files are graded; it mirrors puzzles/
    """

    interpreted: bool = True
    device: str = "cpu"
    capability: tuple[int, int] | None = None
    multiprocessors: int = 4
    targets: tuple[str, ...] = ("sm_80", "sm_90")
    speed_scale: float = 1.0
    compares: bool = False
    draws: bool = False
    times_peers: bool = False
    # Read before any learner's code is loaded.
    debugged: bool = "pydevd" in sys.modules
    subjects: Path = PUZZLES


settings = Settings()
