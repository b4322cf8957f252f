"""What looks on while puzzles are graded: --compare, and what --pictures and --page draw."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from course.benchmark import timing
from course.challenge import LABELS, SOLUTION, Challenge
from course.desk import comparison
from course.options import asked
from course.pictures.calls import Candidate
from course.pictures.roofline import Timed
from kernelgauge.compilation.ahead_of_time import Compiled, check_compiles
from kernelgauge.core import timeouts
from kernelgauge.core.arguments import Arguments
from kernelgauge.core.launch import Launch
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import NotMeasured, Wrong
from kernelgauge.kernel import Contest, Kernel, count, launches_of
from kernelgauge.memory.budgets import Traffic
from kernelgauge.results import ResultCheck
from kernelgauge.run import Observer
from kernelgauge.speed.estimate import H200, RTX_4090, estimate
from kernelgauge.speed.timer import CudaTimer

# How long an estimate may take, in seconds of processor time.
MAX_SECONDS = 30.0
# How many peers stand on a roofline.
MAX_PEERS = 2


class Comparing(Observer):
    """Sets the learner's calls beside our solution's: of each file one call of each kind.

    found: of the running test, by kind of check
    """

    def __init__(self) -> None:
        self.found: dict[str, comparison.Group] = {}
        self._done: set[tuple[Path, str]] = set()

    def begin(self) -> None:
        self.found = {}

    def wants(self, kernel: Kernel, check: str) -> bool:
        """Return whether this call is to be compared."""
        key = kernel.path, check
        if not isinstance(kernel, Challenge) or kernel.is_production or key in self._done:
            return False
        self._done.add(key)
        return True

    def on_traffic(self, kernel: Kernel, arguments: Arguments, traffic: Traffic) -> None:
        if self.wants(kernel, "traffic") and isinstance(kernel, Challenge):
            ours = count(kernel.guarded_solution(arguments))
            self.found["traffic"] = comparison.of_traffic(str(arguments), traffic, ours)

    def on_compiled(self, kernel: Kernel, arguments: Arguments, targets: Sequence[str]) -> None:
        if self.wants(kernel, "compiles") and isinstance(kernel, Challenge):
            ours = launches_of(kernel.guarded_solution(arguments))
            yours_need, ours_need = (
                _first_that_fits(runs, targets[-1], path)
                for runs, path in (
                    (kernel.launches(arguments), kernel.path),
                    (ours, kernel.solution),
                )
            )
            if yours_need and ours_need:
                group = comparison.of_resources(str(arguments), yours_need, ours_need)
                self.found["compiles"] = group

    def instead_of_race(self, kernel: Kernel, arguments: Arguments) -> None:
        if not self.wants(kernel, "speedup") or not isinstance(kernel, Challenge):
            return
        # The model knows of one GPU, and not how fast another one is reached.
        if kernel.rules.ranks:
            return
        sides = (
            (kernel.guarded, kernel.subject, kernel.path),
            (kernel.guarded_solution, kernel.opponent(SOLUTION), kernel.solution),
        )
        rows = []
        # What the programs of others would have computed may be missing: then nothing is told.
        with (
            contextlib.suppress(Wrong, NotMeasured),
            timeouts.no_time_limit(),
            timeouts.time_limit(MAX_SECONDS),
        ):
            for gpu in (H200, RTX_4090):
                yours, ours = (
                    estimate(
                        kernel.works(lambda make=make: make(arguments), function, path, gpu), gpu
                    )
                    for make, function, path in sides
                )
                if yours.is_clear and ours.is_clear:
                    rows.append((gpu, yours, ours))
        if rows:
            self.found["speedup"] = comparison.of_estimates(str(arguments), rows)


class Racing(Observer):
    """Races our solution and its peers too, for --compare and for the roofline.

    comparing: takes what was raced for --compare; None without it
    timed: the races of the running test
    """

    def __init__(self, comparing: Comparing | None = None):
        self.comparing = comparing
        self.timed: list[Timed] = []

    def begin(self) -> None:
        self.timed = []

    def on_race(self, kernel: Kernel, contest: Contest) -> None:
        assert isinstance(kernel, Challenge)
        interval = contest.result.interval
        is_ours = contest.label == LABELS[SOLUTION]
        sides = {"yours": interval.subject_ms, contest.label: interval.reference_ms}
        compares = self.comparing is not None and self.comparing.wants(kernel, "speedup")
        if compares or (asked.draws and not is_ours):
            # The verdict is that of the race itself: this one gives two times, or none.
            with contextlib.suppress(Wrong, ValueError):
                beside = contest.against(kernel.opponent(SOLUTION), 0.0)
                sides["ours"] = beside.interval.reference_ms
                if compares and self.comparing:
                    group = comparison.of_times(str(contest.arguments), beside)
                    self.comparing.found["speedup"] = group
        if asked.times_peers:
            sides |= _fastest_peers(kernel, contest)
        if asked.draws and contest.limits:
            call = f"{kernel.name}({contest.arguments})"
            work = contest.bytes_moved, contest.operations
            self.timed.append(Timed.of(contest.limits, call, *work, sides))


class Drawing(Observer):
    """Keeps the calls of the running test, to be drawn once it has ended."""

    def __init__(self) -> None:
        self.calls: list[Candidate] = []

    def begin(self) -> None:
        self.calls = []

    def on_check(self, kernel: Kernel, arguments: Arguments, results: ResultCheck) -> None:
        self._note(kernel, arguments, results)

    def on_traffic(self, kernel: Kernel, arguments: Arguments, traffic: Traffic) -> None:
        self._note(kernel, arguments, None)

    def _note(self, kernel: Kernel, arguments: Arguments, results: ResultCheck | None) -> None:
        if settings.interpreted and isinstance(kernel, Challenge):
            candidate = Candidate(
                kernel.puzzle,
                kernel.name,
                arguments,
                lambda: kernel.guarded(arguments),
                lambda: results.mismatch if results else None,
            )
            self.calls.append(candidate)


def _fastest_peers(kernel: Challenge, contest: Contest) -> dict[str, float]:
    """Return the times of what a user would take instead, of those that run here."""
    times: dict[str, float] = {}
    # Compiling some takes a minute. What one of them raises says nothing of the subject.
    with timeouts.no_time_limit(), contextlib.suppress(Exception):
        times = timing.time_peers(
            kernel.puzzle,
            contest.contents,
            CudaTimer(),
            lambda peer: kernel.on_tensors(peer, contest.arguments),
        )
    return dict(sorted(times.items(), key=lambda it: it[1])[:MAX_PEERS])


def _first_that_fits(runs: Sequence[Sequence[Launch]], target: str, path: Path) -> list[Compiled]:
    """Return what the kernels need of the first configuration that fits; nothing if none does."""
    for launches in runs:
        # Whether they have to compile is another question, and has been answered.
        with contextlib.suppress(Wrong):
            return check_compiles(launches, (target,), subject=path, details=True)
    return []
