"""Progress on the learner's own stubs, kept in pytest's cache from run to run.

What was found is kept by the content of a file, so a file that is brought back is solved again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from course.paths import PRODUCTION
from course.plugin.ladder import LEVELS, SOLVED, check_of, checks_of

CACHE = "kata/progress-2"
# Contents of one puzzle's file that are remembered, the newest last.
MAX_VERSIONS = 20

# By level and test, whether it passed: {"solved": {"test_masks[ragged]": true}}.
Findings = dict[str, dict[str, bool]]


class Progress:
    """What earlier runs found of each puzzle as its file stands now.

    cache: pytest's, or None where it is switched off
    folder: whose files are graded
    """

    def __init__(self, cache, folder: Path):
        self._cache, self._folder = cache, folder
        self._kept: dict[str, dict[str, Findings]] = {} if cache is None else cache.get(CACHE, {})

    def of(self, puzzle: str) -> Findings:
        """Return what was found of a puzzle's file with its present content."""
        return self._kept.get(puzzle, {}).get(self._digest(puzzle), {})

    def add(self, puzzle: str, findings: Findings) -> None:
        """Merge what this run found of a puzzle."""
        versions = self._kept.setdefault(puzzle, {})
        digest = self._digest(puzzle)
        merged = versions.pop(digest, {})
        for level, tests in findings.items():
            merged[level] = merged.get(level, {}) | tests
        versions[digest] = merged
        for oldest in list(versions)[:-MAX_VERSIONS]:
            del versions[oldest]

    def save(self) -> None:
        """Write everything to the cache."""
        if self._cache is not None:
            self._cache.set(CACHE, self._kept)

    def _digest(self, puzzle: str) -> str:
        path = self._folder / f"{puzzle}.py"
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""


def is_done(found: Findings, puzzle: str, level: str) -> bool:
    """Whether every kind of check of a level was made of a puzzle, and all of them passed.

    In production a puzzle is done only if it is solved.
    """
    if level == PRODUCTION and not is_done(found, puzzle, SOLVED):
        return False
    tests = found.get(level, {})
    made = {check_of(test) for test in tests}
    wanted = checks_of(puzzle, level)
    return bool(wanted) and wanted <= made and all(tests.values())


def first_open(puzzles: Iterable[str], progress: Progress) -> str | None:
    """Return the first of these puzzles that is not solved."""
    return next((p for p in puzzles if not is_done(progress.of(p), p, SOLVED)), None)


def counted(puzzles: Sequence[str], progress: Progress) -> str:
    """Say how many of these puzzles are solved: 3 of 6 solved, 1 in production."""
    done = {
        level: sum(is_done(progress.of(puzzle), puzzle, level) for puzzle in puzzles)
        for level in LEVELS
    }
    production = f", {done[PRODUCTION]} in production" if done[PRODUCTION] else ""
    return f"{done[SOLVED]} of {len(puzzles)} solved{production}"


def production_of(found: Findings, puzzle: str) -> str:
    """Say how far a puzzle's second level is: production 14/19."""
    tests = found.get(PRODUCTION, {})
    if not tests:
        return "production not tried" if checks_of(puzzle, PRODUCTION) else ""
    return f"production {sum(tests.values())}/{len(tests)}"
