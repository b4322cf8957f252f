"""Where the files of the puzzles are."""

from __future__ import annotations

import os
from pathlib import Path

from kernelgauge.core.paths import display_path, load, replaced

__all__ = [
    "HOME",
    "PRODUCTION",
    "PUZZLES",
    "REFERENCE",
    "ROOT",
    "SOLUTIONS",
    "WORKSPACE",
    "display_path",
    "load",
    "located",
    "puzzle_at",
    "replaced",
]

ROOT = Path(__file__).resolve().parents[1]
# Names the folder of a learner who does not work in this one: course.desk.workspace lays it out.
WORKSPACE = "TRITON_KATA_WORKSPACE"
HOME = Path(os.environ.get(WORKSPACE, ROOT))
PUZZLES = HOME / "puzzles"
REFERENCE = ROOT / "reference"
SOLUTIONS = REFERENCE / "solutions"

# In each chapter, the folder of the tests of the second level.
PRODUCTION = "production"


def located(path: os.PathLike | str) -> Path:
    """Return where a path is. A file that is a link, as the tests of a workspace are, stays one."""
    path = Path(path)
    return path.resolve() if path.is_dir() else path.parent.resolve() / path.name


def puzzle_at(test_file: Path) -> tuple[str, str]:
    """Return chapter and name of the puzzle that a test file, of either level, belongs to."""
    folder = test_file.parent
    chapter = folder.parent if folder.name == PRODUCTION else folder
    return chapter.name, test_file.stem.removeprefix("test_")
