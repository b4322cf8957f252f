"""Progress on the learner's own stubs, kept in pytest's cache from run to run.

What was found is kept by the content of a file, so a file that is brought back is solved again.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

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
