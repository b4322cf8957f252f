"""Run a puzzle's own tests in this process, on a subject of one's choice."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from course import paths, running
from course.inputs import parameters_of
from course.plugin import diagnoses, failures, ladder, session
from course.proof.kept import kept
from kernelgauge.core.paths import forget
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import NotMeasured, Wrong
from kernelgauge.diagnosis.observations import Right

# Failures of a kernel that are diagnosed together, and those after which that may do already.
ENOUGH, FEW = 8, 3


@dataclass(frozen=True)
class Case:
    """One test of a puzzle with its parameters.

    level: as in course.plugin.ladder
    name: as pytest shows it, test_masks[ragged]
    """

    puzzle: str
    level: str
    test: str
    name: str
    function: Callable
    parameters: dict

    @property
    def id(self) -> str:
        """What pytest calls it."""
        path = ladder.path_of_tests(self.puzzle, self.level).relative_to(paths.ROOT)
        return f"{path}::{self.name}"

    def run(self, *, defers: bool = False) -> None:
        """Run it as pytest would, on the same random numbers. Raises what the test raises.

        defers: whether a diagnosis of all cases is to follow
        """
        session.begin(self.id, defers=defers)
        session.require_measurable(ladder.check_of(self.test))
        self.function(**self.parameters)


def module_of(puzzle: str, level: str = ladder.SOLVED) -> ModuleType:
    """Load a puzzle's tests of one level, as a module."""
    return paths.load(ladder.path_of_tests(puzzle, level))


def cases_of(puzzle: str, *levels: str) -> list[Case]:
    """List every case of every test of the puzzle, in the order of its files.

    levels: the first one if none is given
    """
    found = []
    for level in levels or (ladder.SOLVED,):
        if not ladder.path_of_tests(puzzle, level).exists():
            continue
        for test, function in vars(module_of(puzzle, level)).items():
            if ladder.check_of(test) and inspect.isfunction(function):
                for label, parameters in parameters_of(function):
                    name = f"{test}[{label}]" if label else test
                    found.append(Case(puzzle, level, test, name, function, parameters))
    return found


@contextmanager
def graded(puzzle: str, source: str, folder: Path) -> Iterator[None]:
    """In the body this source is what the puzzle's tests grade; it is written below folder."""
    path = folder / f"{puzzle}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    forget(path)
    before = settings.subjects, running.memory
    settings.subjects, running.memory = folder, kept
    try:
        with kept.about(puzzle):
            yield
    finally:
        settings.subjects, running.memory = before


def first_fault(cases: list[Case]) -> tuple[Case, Wrong] | None:
    """The first case that fails and why, or None. Raises NotMeasured if none can be measured."""
    unmeasured = None
    measured = False
    for case in cases:
        try:
            case.run()
        except Wrong as wrong:
            return case, wrong
        except NotMeasured as reason:
            unmeasured = reason
        else:
            measured = True
    if unmeasured and not measured:
        raise unmeasured
    return None


def told(cases: Iterable[Case], enough: float = ENOUGH) -> list[failures.Failure]:
    """The failures that a learner reads, one of each cause, the first one first.

    To save time, kernels are compiled only if nothing else fails.

    enough: stop after so many failures, or once one mistake explains all of the first few; infinity
        for never
    """
    found: list[tuple[Case, Wrong]] = []
    right: list[Right] = []
    ordered = sorted(cases, key=lambda case: ladder.check_of(case.test) == "compiles")
    for case in ordered:
        if found and ladder.check_of(case.test) == "compiles":
            break
        try:
            case.run(defers=True)
        except NotMeasured:
            continue
        except Wrong as verdict:
            found.append((case, verdict.without_traceback()))
            if len(found) == enough or (len(found) == FEW < enough < math.inf and _agree(found)):
                break
        finally:
            right += running.current().right
    return [group[0] for group in failures.grouped(failures_of(found, right))]


def first_told(cases: Iterable[Case]) -> failures.Failure | None:
    """The failure that a learner reads first, None if all pass."""
    return next(iter(told(cases)), None)


def _agree(found: Sequence[tuple[Case, Wrong]]) -> bool:
    """Whether one mistake explains all of these failures."""
    told = failures_of(found)
    return len(failures.grouped(told)) == 1 and told[0].is_proven


def failures_of(
    found: Sequence[tuple[Case, Wrong]], right: Sequence[Right] = ()
) -> list[failures.Failure]:
    """The failures of one file as a run has them once the file is through.

    right: the calls that were right
    """
    observed = [wrong for _, wrong in found if wrong.observation]
    causes = dict(zip(map(id, observed), diagnoses.diagnosed(observed, right), strict=True))
    return [
        failures.Failure(
            case.puzzle,
            case.level,
            case.name,
            str(ladder.path_of_tests(case.puzzle, case.level).relative_to(paths.ROOT)),
            order,
            failures.told(causes.get(id(wrong), wrong).fault),
        )
        for order, (case, wrong) in enumerate(found)
    ]
