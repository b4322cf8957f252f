"""What a run found of one person's files, in plain data that JSON can hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kernelgauge.core.figure import Figure

# docs/report.schema.json describes what is written.
FORMAT = 2

# How far a puzzle is. UNFINISHED: what was run of it passes, but not all of it was run.
PRODUCTION, SOLVED, WRONG, UNFINISHED = "production", "solved", "wrong", "unfinished"
NOT_STARTED, NOT_GRADED = "not started", "not graded"
DONE = (SOLVED, PRODUCTION)


@dataclass
class Check:
    """One test of a puzzle.

    level: "solved" or "production"
    test: its name, test_masks[ragged]
    kind: shapes, masks, numerics, traffic, compiles, speedup; "" of another
    verdict: passed, wrong, unsolved, not measured, not run
    message: what the judge said, "" where it passed
    printed: what the learner's code printed, where it failed
    figures: what was measured, beside what is asked for
    fault: what is wrong, as `kernelgauge.words.fault.Fault.plain` gives it; None where nothing is
    withheld: whether the message keeps the cause from the learner, who is to find it
    race: times in milliseconds and the interval of the speed-up; None where nothing was timed
    """

    level: str
    test: str
    kind: str
    verdict: str
    message: str = ""
    printed: str = ""
    figures: list[Figure] = field(default_factory=list)
    fault: dict[str, Any] | None = None
    withheld: bool = False
    race: dict[str, Any] | None = None


@dataclass
class Cause:
    """What one or more checks fail of. What to fix first stands first in a puzzle's list.

    title: a load outside x
    kind: the id of the kind of fault, which `pytest --explain` takes
    level: the first level that asks for it
    checks: the names of the tests, the most telling first; the message is that of the first
    command: runs that test alone
    """

    title: str
    kind: str
    level: str
    checks: list[str]
    message: str
    printed: str
    command: str


@dataclass
class Picture:
    """A drawing.

    svg: the text of a whole SVG file
    """

    kind: str
    title: str
    caption: str
    svg: str


@dataclass
class Puzzle:
    """One step of the ladder.

    name: 01_pointwise/swish
    number, title: of its spec, "01.4" and "Swish"
    chapter: the title of its chapter
    file: as a learner types it
    state: one of those at the head of this module
    production: how many checks of the second level pass, and of how many; None if it was not tried,
        or the puzzle is not solved
    cells: for each level that was graded, what the scoreboard says of each kind of check
    """

    name: str
    number: str
    title: str
    chapter: str
    file: str
    state: str
    production: list[int] | None = None
    cells: dict[str, dict[str, str]] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)

    @property
    def is_graded(self) -> bool:
        """Whether this run had a test of it."""
        return bool(self.checks)

    @property
    def is_open(self) -> bool:
        """Whether this run found more of it than that nothing is written yet."""
        return self.is_graded and self.state != NOT_STARTED

    @property
    def is_done(self) -> bool:
        """Whether it is solved."""
        return self.state in DONE

    @classmethod
    def of(cls, data: dict[str, Any]) -> Puzzle:
        """Return what `asdict` made plain."""
        checks = [
            Check(**it | {"figures": [Figure(**figure) for figure in it["figures"]]})
            for it in data["checks"]
        ]
        causes = [Cause(**it) for it in data["causes"]]
        pictures = [Picture(**it) for it in data["pictures"]]
        return cls(**data | {"checks": checks, "causes": causes, "pictures": pictures})


@dataclass
class Report:
    """One person's run.

    person: whose files; "" for the learner's own
    folder: where they are
    created: date and time
    machine: mode, device and versions
    command: what was typed
    puzzles: the whole ladder, in the order of the climb
    problem: why nothing could be graded, "" if it was
    digest: of all that decided it, where --results keeps it; "" elsewhere
    """

    person: str
    folder: str
    created: str
    machine: str
    command: str
    puzzles: list[Puzzle] = field(default_factory=list)
    problem: str = ""
    digest: str = ""

    @property
    def graded(self) -> list[Puzzle]:
        """The puzzles that this run was about."""
        return [puzzle for puzzle in self.puzzles if puzzle.is_graded]

    @property
    def lacks_speed(self) -> bool:
        """Whether this machine could not measure a speed that is asked for."""
        checks = [check for puzzle in self.graded for check in puzzle.checks]
        return any(it.kind == "speedup" and it.verdict == "not measured" for it in checks)

    def count(self, *states: str) -> int:
        """Return how many of the graded puzzles are in one of these states."""
        return sum(puzzle.state in states for puzzle in self.graded)

    @classmethod
    def of(cls, data: dict[str, Any]) -> Report:
        """Return what `asdict` made plain."""
        return cls(**data | {"puzzles": [Puzzle.of(it) for it in data["puzzles"]]})


def save(path: Path, reports: Sequence[Report]) -> None:
    """Write reports as JSON. Raises OSError."""
    data = {"format": FORMAT, "reports": [asdict(report) for report in reports]}
    path.write_text(
        json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
    )


def load(path: Path) -> list[Report]:
    """Read what `save` wrote. Raises OSError, and ValueError if another version wrote it."""
    data = json.loads(path.read_text(encoding="utf-8"))
    if data.get("format") != FORMAT:
        raise ValueError(f"{path} is of format {data.get('format')}, not {FORMAT}")
    return [Report.of(it) for it in data["reports"]]
