"""What the machine offers, and whose code is graded."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Settings:
    """Settings of this process, filled in once at its start.

    installed: whether this process is set up, see kernelgauge.setup
    compiling: whether this is the compiler's process, which imports kernels and runs none
    interpreted: kernels run in Triton's interpreter, on the CPU
    device: where inputs are made, "cpu" or "cuda"
    capability: compute capability of the GPU, (9, 0) for an H200; None without a GPU
    multiprocessors: how many the GPU has; 4 in the interpreter, as the stubs of chapter 17 say
    targets: names of the GPUs that kernels are compiled for where a check names none
    debugged: whether the debugger of VS Code or PyCharm runs this process; it starts threads, and
        stops for as long as its user looks
    subjects: the folder whose files are graded; None if any file is that belongs to no library
    answers: the folder whose files a graded file must not read, if there is one
    packages: the top-level packages that grade. Their frames are nobody's kernel, and what is in
        them must stay as it is while a graded file runs
    sealed: whether launchers run in a cell: see kernelgauge.sealed
    passing_errors: what ends a run where graded code raises it. All else counts as its own fault,
        but for a time limit
    """

    installed: bool = False
    compiling: bool = False
    interpreted: bool = True
    device: str = "cpu"
    capability: tuple[int, int] | None = None
    multiprocessors: int = 4
    targets: tuple[str, ...] = ("sm_80", "sm_90")
    # Read before any learner's code is loaded.
    debugged: bool = "pydevd" in sys.modules
    subjects: Path | None = None
    sealed: bool = False
    answers: Path | None = None
    packages: tuple[str, ...] = ("kernelgauge",)
    passing_errors: tuple[type[BaseException], ...] = (KeyboardInterrupt,)


settings = Settings()
