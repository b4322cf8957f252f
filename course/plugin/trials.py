"""--try: print what other values of a constexpr or of a launch option change."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from course import running
from course.plugin import failures, looks, session
from course.plugin.ladder import SOLVED, check_of, level_of, path_of_tests, puzzle_of
from kernelgauge.compilation import figures
from kernelgauge.compilation.ahead_of_time import Compiled, compile_each
from kernelgauge.compilation.targets import TARGETS, find_target
from kernelgauge.core.arguments import Arguments
from kernelgauge.core.launch import Launch
from kernelgauge.core.paths import display_path
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import NotMeasured, Unsolved, Wrong
from kernelgauge.kernel import Kernel
from kernelgauge.memory.budgets import Traffic
from kernelgauge.memory.executor import OPTIONS
from kernelgauge.subject.launcher_source import followed, meta_parameters
from kernelgauge.subject.trial import Trial
from kernelgauge.words.kinds import KINDS, RAISES, RUNS, STARTS
from kernelgauge.words.tables import aligned

# Those that a learner is told of; the compiler knows more.
USUAL_OPTIONS = ("num_warps", "num_stages", "maxnreg")
MAX_SOURCE = 60


@dataclass
class Row:
    """One combination of values, in all tests that it was run in.

    values: what was tried, nothing as the file stands
    shown: the values of the launches, by name
    missed: a constexpr that @triton.heuristics sets, so that the values were not tried
    wrong: what went wrong, by test
    traffic: what is moved, over the least; over_budget: whether that is more than the spec allows
    time: of the race
    made: what was made of each kernel, by case of the compile check
    """

    values: dict[str, Any]
    shown: dict[str, str] = field(default_factory=dict)
    missed: str = ""
    wrong: dict[str, Wrong] = field(default_factory=dict)
    traffic: float | None = None
    over_budget: bool = False
    time: str = ""
    made: dict[str, list[Compiled | Wrong]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.values.items()) or "as it is"

    @property
    def verdict(self) -> str:
        """Whether the results are right, wrong, or not there."""
        if self.missed:
            return "not tried"
        groups = {KINDS[wrong.fault.kind].group for wrong in self.wrong.values()}
        if groups & {STARTS, RUNS, RAISES}:
            return "fails"
        return "wrong" if self.wrong else "right"


class TrialLook(looks.Look):
    """Runs the compile check, the traffic test and the race of a puzzle with each combination."""

    option, verb = "--try", "tried"

    def __init__(self, config: pytest.Config, combinations: list[dict[str, Any]]):
        super().__init__(config)
        self.combinations = combinations
        self.names = list(combinations[0])
        # By puzzle and level, as `_key` names them; first the file as it stands.
        self.rows: dict[str, list[Row]] = {}
        self.fixed: dict[str, dict[tuple[str, str], Any]] = {}
        self.followed: dict[str, dict[str, list[str]]] = {}
        # How many configurations an autotuner has.
        self.configs: dict[str, int] = {}
        self._row = Row({})
        self._trial = Trial({})
        self._puzzle = ""

    def choose(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """One test of each kind a puzzle and level, first those that the others depend on."""
        measured = "traffic" if settings.interpreted else "speedup"
        chosen: dict[tuple, pytest.Item] = {}
        for kind in ("compiles", measured):
            for item in looks.of_kind(items, kind):
                chosen.setdefault((puzzle_of(item.path), level_of(item.path), kind), item)
        complete = {key[:2] for key in chosen if key[2] == "compiles"}
        found = [item for key, item in chosen.items() if key[:2] in complete]
        unknown = {item.path: self._unknown(item) for item in found}
        known = [item for item in found if not unknown[item.path]]
        if found and not known:
            raise pytest.UsageError(unknown[found[0].path])
        return known

    def _unknown(self, item: pytest.Item) -> str:
        """Say which name no kernel of a puzzle takes, "" if all are known."""
        path = item.module.puzzle.path
        try:
            source = path.read_text()
            tree = ast.parse(source)
        except (OSError, SyntaxError):
            # As in any run, that is told where the puzzle is run.
            return ""
        known = meta_parameters(tree)
        for name in self.names:
            if name not in known and name not in OPTIONS:
                return (
                    f"--try {name}: no kernel of {display_path(path)} has this constexpr; "
                    f"there are {', '.join([*known, *USUAL_OPTIONS])}"
                )
        lines = source.splitlines()
        self.followed[_key(item)] = {
            name: [f"line {n}: {lines[n - 1].strip()[:MAX_SOURCE]}" for n in followed(tree, name)]
            for name in self.names
        }
        return ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        """Run one test with each combination. What goes wrong belongs to the table."""
        subject = pyfuncitem.module.puzzle
        # An untouched stub, or a file that cannot be loaded, is told as in any run.
        _ = subject.subject
        self._puzzle = _key(pyfuncitem)
        rows = self.rows.setdefault(
            self._puzzle, [Row({}), *(Row(values) for values in self.combinations)]
        )
        given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        for row in [one for one in rows if not one.missed]:
            session.begin(pyfuncitem.nodeid)
            self._row, self._trial = row, Trial(row.values)
            try:
                with self._trial.running(subject.path):
                    pyfuncitem.obj(**given)
            except NotMeasured:
                pass
            except Unsolved:
                del self.rows[self._puzzle]
                raise
            except Wrong as wrong:
                self._note(pyfuncitem.name, wrong)
            if races := running.current().races:
                row.time = races[-1].columns()["yours"]
            self.fixed.setdefault(self._puzzle, {}).update(self._trial.fixed)
            if row is rows[0]:
                rows[1:] = [one for one in rows[1:] if _shown(one.values) != row.shown]
        return True

    def _note(self, test: str, wrong: Wrong) -> None:
        kind = check_of(test)
        if kind == "traffic" and self._row.traffic is not None:
            self._row.over_budget = True
        elif not (kind == "speedup" and running.current().races):
            self._row.wrong[test] = wrong

    def before_compiling(
        self, kernel: Kernel, arguments: Arguments, targets: Sequence[str]
    ) -> bool:
        """Compile what is launched, then run it and compare its results."""
        runs = kernel.launches(arguments)
        launches = runs[0]
        if not self._row.values:
            self.configs[self._puzzle] = len(runs)
        self._row.missed = self._trial.missed(launches)
        if self._row.missed:
            return True
        self._row.shown = {name: _passed(launches, name) for name in self.names}
        target = self._target(targets)
        found = compile_each(launches, (target,), subject=kernel.path.resolve())
        made = [outcomes[target] for outcomes in found]
        self._row.made.setdefault(looks.case_of(kernel.run.case), []).extend(made)
        traffic = kernel.counted(arguments, order="shuffled")
        if traffic:
            self._row.traffic = traffic.share_of_least
        return True

    def on_traffic(self, kernel: Kernel, arguments: Arguments, traffic: Traffic) -> None:
        self._row.traffic = traffic.share_of_least

    @staticmethod
    def _target(targets: Sequence[str]) -> str:
        """Return this machine's GPU, or the last that was asked for."""
        own = "sm_{}{}".format(*settings.capability) if settings.capability else ""
        return own if own in TARGETS else targets[-1]

    def write(self, terminal) -> None:
        for puzzle, rows in self.rows.items():
            for case in rows[0].made or {"": []}:
                self._write_table(terminal, puzzle, rows, case)
            self._write_notes(terminal, puzzle)
            self._write_wrong(terminal, puzzle, rows)

    def _write_table(self, terminal, puzzle: str, rows: list[Row], case: str) -> None:
        made = [one for row in rows for one in row.made.get(case, ()) if isinstance(one, Compiled)]
        gpu = f", compiled for {find_target(made[0].target)}" if made else ""
        terminal.section(f"{puzzle}{case and ', '}{case}{gpu}", sep="-")
        several = len({one.kernel for one in made}) > 1
        measured = ["traffic"] if settings.interpreted else ["time"]
        head = ["", *self.names, "results", *measured, "registers", "spilled", "shared"]
        head += ["programs", "limited by", *(["kernel"] if several else [])]
        lines = [head]
        for row in rows:
            lines += self._lines(row, case, several)
        for line in aligned(lines):
            terminal.line(line)

    def _lines(self, row: Row, case: str, several: bool) -> list[list[str]]:
        """Return the cells of one combination: a line for each kernel."""
        moved = "" if row.traffic is None else f"{row.traffic:.3g}x"
        start = ["" if row.values else "now"]
        start += [str(row.values.get(name, row.shown.get(name, ""))) for name in self.names]
        start += [row.verdict]
        start += (
            [f"{moved}, over" if row.over_budget else moved] if settings.interpreted else [row.time]
        )
        lines = []
        for one in row.made.get(case, []) or [None]:
            cells = _figures(one) + ([getattr(one, "kernel", "")] if several else [])
            lines.append((start if not lines else [""] * len(start)) + cells)
        return lines

    def _write_notes(self, terminal, puzzle: str) -> None:
        terminal.line("")
        if settings.interpreted:
            terminal.line(
                "traffic: what is moved, in sectors of 32 bytes, over inputs and results together"
            )
        terminal.line(
            "spilled: bytes a thread; shared: memory a program; programs: on a multiprocessor"
        )
        if (count := self.configs.get(puzzle, 1)) > 1:
            terminal.line(
                f"autotuned: the values take the place of those in the first of {count} configs"
            )
        for name, lines in self.followed.get(puzzle, {}).items():
            if lines:
                terminal.line(f"{name} was changed in a copy of your launcher too:")
                for line in lines:
                    terminal.line(f"    {line}")
        for name in dict.fromkeys(row.missed for row in self.rows[puzzle] if row.missed):
            terminal.line(f"{name} is not tried: @triton.heuristics sets it", yellow=True)
        for (kernel, name), passed in self.fixed.get(puzzle, {}).items():
            terminal.line(
                f"{name}: the grid of {kernel} does not follow: it was made for {passed}.",
                yellow=True,
            )
            terminal.line(f'    write kernel[lambda meta: (triton.cdiv(n, meta["{name}"]),)](...)')

    def _write_wrong(self, terminal, puzzle: str, rows: list[Row]) -> None:
        """Print each cause of what went wrong once."""
        found = []
        for number, row in enumerate(rows):
            told = list(row.wrong.items())
            told += [
                ("test_compiles", one)
                for made in row.made.values()
                for one in made
                if isinstance(one, Wrong)
            ]
            path = display_path(path_of_tests(*puzzle.split()))
            for test, wrong in told:
                what = failures.told(wrong.fault)
                found.append(failures.Failure(puzzle, SOLVED, test, path, number, what))
        for group in failures.grouped(found):
            labels = list(dict.fromkeys(rows[one.order].label for one in group))
            more = f", and {len(labels) - 1} more" if len(labels) > 1 else ""
            terminal.section(f"{labels[0]}{more}: {group[0].title}", sep="_", red=True)
            for line in failures.lines_of(group[0])[: failures.MAX_LINES]:
                terminal.line(line)


def _key(item: pytest.Item) -> str:
    """Return puzzle and level of a test: `07_matmul/tiled`, or `07_matmul/tiled production`."""
    level = level_of(item.path)
    return f"{puzzle_of(item.path)} {level if level != SOLVED else ''}".strip()


def _figures(one: Compiled | Wrong | None) -> list[str]:
    if not isinstance(one, Compiled):
        return [figures.why_not(one) if one else "", "", "", "", ""]
    programs = str(one.occupancy.programs)
    return [
        str(one.registers),
        f"{one.spills:,}",
        figures.size(one.shared),
        programs,
        figures.limits(one),
    ]


def _passed(launches: list[Launch], name: str) -> str:
    """Return what launches pass for a parameter or option."""
    passed = [
        launch.arguments[name] if name in launch.constexprs else launch.options.get(name, "default")
        for launch in launches
        if name in launch.constexprs or name in OPTIONS
    ]
    return "/".join(dict.fromkeys(map(str, passed)))


def _shown(values: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}
