"""What one run was asked for, and the machine that it found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from judge.core.paths import PUZZLES


@dataclass
class Settings:
    """The settings of this process. `judge.plugin.session` fills them in before any test runs.

    interpreted: kernels run in Triton's interpreter, on the CPU
    device: where inputs are made, "cpu" or "cuda"
    capability: compute capability of the GPU, (9, 0) for an H200; None without one
    multiprocessors: of the GPU; 4 in the interpreter, as the stubs of chapter 17 say
    targets: names of the GPUs that test_compiles compiles for
    speed_scale: a factor on every speed-up that a spec asks for, since the bars were set on an H200
    subjects: the folder whose files are graded; it mirrors puzzles/
    """

    interpreted: bool = True
    device: str = "cpu"
    capability: tuple[int, int] | None = None
    multiprocessors: int = 4
    targets: tuple[str, ...] = ("sm_80", "sm_90")
    speed_scale: float = 1.0
    subjects: Path = PUZZLES


settings = Settings()
