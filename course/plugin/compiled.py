"""--compiled: print what the compiler makes of each kernel that the compile checks launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from course.challenge import Challenge
from course.plugin import looks
from kernelgauge import kernel as gauge
from kernelgauge.compilation import figures
from kernelgauge.compilation.ahead_of_time import Compiled, DoesNotFit, compile_each
from kernelgauge.core.arguments import Arguments
from kernelgauge.core.paths import display_path
from kernelgauge.core.verdict import Wrong

# Of the arguments of a call, no more is shown than fits.
MAX_LINE = 100


@dataclass(frozen=True)
class Kernel:
    """What was made of one kernel in one compile check.

    puzzle: 07_matmul/tiled
    case: of the check, "" if it has one only
    called: what the launcher was called with
    outcomes: by target
    code: where its code was left, None if nobody asked
    """

    puzzle: str
    case: str
    called: str
    outcomes: dict[str, Compiled | Wrong]
    code: str | None


class CompiledLook(looks.Look):
    """Compiles what the compile checks launch, and prints what came out."""

    option, verb = "--compiled", "compiled"

    def __init__(self, config: pytest.Config):
        super().__init__(config)
        given = config.option.compiled
        self.folder = looks.folder_to_write(self.option, given) if given else None
        self.kernels: list[Kernel] = []

    def choose(self, items: list[pytest.Item]) -> list[pytest.Item]:
        return looks.of_kind(items, "compiles")

    def before_compiling(
        self, kernel: gauge.Kernel, arguments: Arguments, targets: Sequence[str]
    ) -> bool:
        """Compile all that is launched. Raises Wrong where the compile check would."""
        assert isinstance(kernel, Challenge)
        runs = kernel.launches(arguments)
        launches = [launch for run in runs for launch in run]
        file = kernel.path.resolve()
        found = compile_each(launches, targets, subject=file, listings=self.folder is not None)
        for outcomes in found:
            case = looks.case_of(kernel.run.case)
            code = self._leave(kernel.puzzle, case, outcomes)
            self.kernels.append(Kernel(kernel.puzzle, case, str(arguments), outcomes, code))
        wrong = [one for outcomes in found for one in outcomes.values() if isinstance(one, Wrong)]
        # Of an autotuner's configurations, one that fits is enough.
        serious = [one for one in wrong if len(runs) == 1 or not isinstance(one, DoesNotFit)]
        if serious:
            raise serious[0]
        return True

    def _leave(self, puzzle: str, case: str, outcomes: dict[str, Compiled | Wrong]) -> str | None:
        """Write the code of one kernel. Returns where, without the endings."""
        if self.folder is None:
            return None
        folder = self.folder / puzzle / case
        folder.mkdir(parents=True, exist_ok=True)
        made = [one for one in outcomes.values() if isinstance(one, Compiled)]
        if not made:
            return None
        same = {k.code for k in self.kernels}
        base, number = folder / made[0].kernel, 1
        while (named := display_path(base if number == 1 else f"{base}-{number}")) in same:
            number += 1
        for one in made:
            for stage, text in one.listings.items():
                Path(f"{named}.{one.target}.{stage}").write_text(text)
        return named

    def write(self, terminal) -> None:
        for number, kernel in enumerate(self.kernels):
            made = [one for one in kernel.outcomes.values() if isinstance(one, Compiled)]
            if not made:
                continue
            if number == 0:
                terminal.section("compiled", sep="-")
            else:
                terminal.line("")
            title = f"{kernel.puzzle}: {made[0].kernel}"
            terminal.line(f"{title}, {kernel.case}" if kernel.case else title, bold=True)
            terminal.line(f"called with {_cut(kernel.called)}")
            if made[0].settings:
                terminal.line(f"launched with {made[0].settings}")
            for line in figures.sheet(kernel.outcomes):
                terminal.line(line)
            if kernel.code:
                stages = dict.fromkeys(stage for one in made for stage in one.listings)
                targets = ",".join(one.target for one in made)
                terminal.line(f"code in {kernel.code}.{{{targets}}}.{{{','.join(stages)}}}")
        if self.kernels:
            terminal.line("")
            terminal.line("docs/compiler.md says what each line means, and what to do about it.")


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}..."
