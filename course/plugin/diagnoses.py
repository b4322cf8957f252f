"""Name the causes of wrong results once all cases of a file are through.

All tests of a puzzle's file run in one process, also under xdist (see `course.plugin.scheduling`),
so that what is named depends neither on the number of workers nor on the order of tests. The causes
travel with the report of the last test of the file, or, where a run stops before that, with its
end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from course.plugin import failures
from course.plugin.ladder import puzzle_of
from kernelgauge.core.verdict import Wrong

if TYPE_CHECKING:
    from kernelgauge.diagnosis.observations import Right

# Of the report of the last test of a file, and of a worker's output.
PROPERTY = "kata_diagnosed"


def outcome(verdict: Wrong, fault: Any) -> Wrong:
    """Return a verdict with what a diagnosis made of the fault in it."""
    outer = verdict.fault
    return Wrong(outer.but(instead=fault) if outer.instead else fault)


class Diagnoses:
    """Keeps what failing cases observed until their file is through."""

    def __init__(self) -> None:
        self._left: Counter[Path] = Counter()
        self._kept: dict[Path, list[tuple[int, str, Wrong, bool]]] = {}
        self._right: dict[Path, list[Right]] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session) -> None:
        """Count the tests of each puzzle's file."""
        self._left = Counter(item.path for item in session.items if puzzle_of(item.path))

    def keep(self, item, order: int, verdict: Wrong, withheld: bool) -> None:
        """Keep a wrong result until its file is through.

        withheld: whether a learner is to find its cause
        """
        if verdict.observation is not None:
            if withheld:
                # No edits are tried that nobody is told.
                verdict.observation.case = None
            self._kept.setdefault(item.path, []).append(
                (order, item.nodeid, verdict.without_traceback(), withheld)
            )

    def keep_right(self, item, right: Iterable[Right]) -> None:
        """Keep what is known of the calls of a test that were right."""
        self._right.setdefault(item.path, []).extend(right)

    def through(self, item) -> list[dict[str, Any]]:
        """Take notice that a test is through. Returns what was found if it was the file's last."""
        self._left[item.path] -= 1
        return [] if self._left[item.path] > 0 else self._diagnosed(item.path)

    def rest(self) -> list[dict[str, Any]]:
        """Return what was found in files that are not through, because the run stops."""
        return [found for path in list(self._kept) for found in self._diagnosed(path)]

    def _diagnosed(self, path: Path) -> list[dict[str, Any]]:
        kept = sorted(self._kept.pop(path, ()), key=lambda it: it[:2])
        verdicts = diagnosed([verdict for _, _, verdict, _ in kept], self._right.pop(path, ()))
        return [
            {"nodeid": nodeid, "told": failures.told(verdict.fault, withheld)}
            for (_, nodeid, _, withheld), verdict in zip(kept, verdicts, strict=True)
        ]


def diagnosed(verdicts: list[Wrong], right: Sequence[Right]) -> list[Wrong]:
    """Return wrong results of one file with their causes.

    right: the calls that were right
    """
    if not verdicts:
        return []
    from kernelgauge.diagnosis.observations import Unexplained, diagnose, explain

    hard = [it for it in verdicts if isinstance(it.observation, Unexplained)]
    soft = [it for it in verdicts if not isinstance(it.observation, Unexplained)]
    seen = [it.observation for it in soft]
    found = dict(zip(soft, diagnose(seen, right), strict=True))
    found |= zip(hard, explain([it.observation for it in hard], seen, right), strict=True)
    return [outcome(it, found[it]) for it in verdicts]
