"""Where the files of the puzzles are."""

from __future__ import annotations

from pathlib import Path

from kernelgauge.core.paths import display_path, load, replaced

__all__ = [
    "PRODUCTION",
    "PUZZLES",
    "REFERENCE",
    "ROOT",
    "SOLUTIONS",
    "display_path",
    "load",
    "puzzle_at",
    "replaced",
]

ROOT = Path(__file__).resolve().parents[1]
PUZZLES = ROOT / "puzzles"
REFERENCE = ROOT / "reference"
SOLUTIONS = REFERENCE / "solutions"

# In each chapter, the folder of the tests of the second level.
PRODUCTION = "production"


def puzzle_at(test_file: Path) -> tuple[str, str]:
    """Return chapter and name of the puzzle that a test file, of either level, belongs to."""
    folder = test_file.parent
    chapter = folder.parent if folder.name == PRODUCTION else folder
    return chapter.name, test_file.stem.removeprefix("test_")
