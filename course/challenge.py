"""A puzzle, as its test file sees it: the kernel to grade, found by the place of the test file."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from course import inputs, loader, paths, running
from course.options import asked
from kernelgauge.core.functions import launcher_globals
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Wrong
from kernelgauge.kernel import Kernel, works_of
from kernelgauge.rules import Rules
from kernelgauge.run import Run
from kernelgauge.speed.estimate import Gpu, Work
from kernelgauge.subject import state
from kernelgauge.subject.guarded_call import GuardedCall
from kernelgauge.words.fault import Fault, Place, note

# What stands for our solution as the baseline of a race.
SOLUTION = "solution"
# What `Challenge.given` takes.
GIVEN = ("multiprocessors", "shared_memory")
# What pictures call the opponent of a race.
LABELS = {None: "eager PyTorch", SOLUTION: "ours"}


def challenge(function: str, *, names_causes: bool = True, **rules: Any) -> Challenge:
    """Return the puzzle whose test file calls this, for example puzzles/07_matmul/test_tiled.py.

    function: the name of the function to grade; the reference has the same name
    names_causes: whether failures say why, or leave that to be found, as debugging is learnt
    rules: the fields of `kernelgauge.rules.Rules`
    """
    test_file = Path(sys._getframe(1).f_globals["__file__"])
    return Challenge(function, test_file, names_causes, **rules)


def broken_rule(text: str, hint: str = "", place: Place | None = None) -> Wrong:
    """Return that a rule of the spec is broken which only this puzzle has, to be raised.

    text: what the kernel does, and what the spec asks for
    hint: what to do about it
    place: the line that it is about
    """
    remedy = note("text", text=hint) if hint else None
    return Wrong(Fault("own-rule", (note("text", text=text),), place, remedy=remedy))


class Challenge(Kernel):
    """One puzzle: the kernel that its tests grade.

    Its files are looked up whenever they are asked for, since a run may grade other folders.

    name: the name of the function to grade; the reference has the same name
    test_file: puzzles/NN_chapter/test_name.py, or production/test_name.py in that folder
    names_causes: as in `challenge`
    chapter: the folder of the puzzle, 07_matmul
    puzzle: 07_matmul/tiled
    """

    # People are graded.
    strict = True

    def __init__(self, function: str, test_file: Path, names_causes: bool = True, **rules: Any):
        self.name, self.test_file, self.rules = function, test_file, Rules(**rules)
        self.names_causes = names_causes
        self.chapter, file = paths.puzzle_at(test_file)
        self.puzzle = f"{self.chapter}/{file}"
        # Kernels that people ship rely on masked lanes being 0. In production they are not, and
        # compilation goes on to machine code.
        self.poison = self.machine_code = test_file.parent.name == paths.PRODUCTION

    @property
    def is_production(self) -> bool:
        """Whether the test file is one of the second level."""
        return self.poison

    @property
    def any_layout(self) -> bool:
        """Whether results need not be contiguous: at the first level few puzzles are about it."""
        return super().any_layout or not (self.is_production or self.rules.contiguous)

    @property
    def run(self) -> Run:  # type: ignore[override]
        """What the running test measures."""
        return running.current()

    @property
    def path(self) -> Path:  # type: ignore[override]
        """The file that is graded."""
        assert settings.subjects is not None
        return settings.subjects / f"{self.puzzle}.py"

    @property
    def subject(self) -> Callable:  # type: ignore[override]
        """The function to grade. Raises Unsolved or Wrong."""
        name = self.puzzle.partition("/")[2]
        return self.graded(loader.load_subject(self.chapter, name, self.name))

    @property
    def reference(self) -> Callable:  # type: ignore[override]
        """The function of the same name in reference/, which gives the right results."""
        return self.opponent(self.name)

    @property
    def mistakes(self) -> Callable | None:  # type: ignore[override]
        """The mistakes that are known of this puzzle."""
        return loader.load_mistakes(self.chapter, self.name)

    def opponent(self, function: str) -> Callable:
        """A function of the chapter's reference file, or our "solution", to race with."""
        if function == SOLUTION:
            return self.graded(getattr(paths.load(self.solution), self.name))
        return self.graded(loader.load_reference(self.chapter, function))

    @property
    def solution(self) -> Path:
        """Our answer."""
        return paths.SOLUTIONS / f"{self.puzzle}.py"

    def guarded_solution(self, *arguments: Any) -> GuardedCall:
        """Return the same call of our solution."""
        return self.guarded(*arguments, other=(self.opponent(SOLUTION), self.solution))

    def race(  # type: ignore[override]
        self, *inputs: Any, at_least: float, baseline: str | None = None, **options: Any
    ) -> None:
        """Race the subject with the reference: see `Kernel.race`.

        baseline: another function of the reference file, to race instead of the reference; or
            "solution" for ours, where 90 % of the GPU's measured limit is enough too
        """
        super().race(
            *inputs,
            at_least=at_least,
            baseline=self.opponent(baseline) if baseline else None,
            scale=asked.speed_scale,
            or_near_limit=baseline == SOLUTION,
            label=LABELS.get(baseline, "the reference"),
            **options,
        )

    def limits(  # type: ignore[override]
        self,
        build: Callable[..., tuple],
        dtypes: Sequence[str] | Mapping[str, Sequence[str]] = (),
        **sizes: int | range,
    ) -> None:
        """Check that no size ends at a number of the subject's file: see `Kernel.limits`.

        A size that `given` takes is given, too.

        dtypes: the names of those that `Kernel.limits` takes
        """
        case = self.run.case

        def seeded(**values: int) -> tuple:
            # No case depends on which others were tried.
            inputs.seed(f"{case} {sorted(values.items())}")
            return build(**values)

        def setting(values: dict[str, int]) -> contextlib.AbstractContextManager:
            return self.given(**{name: values[name] for name in GIVEN if name in values})

        groups = dtypes if isinstance(dtypes, Mapping) else {"": dtypes}
        named = {of: [getattr(torch, it) for it in each] for of, each in groups.items()}
        super().limits(seeded, setting, named, **sizes)

    @contextlib.contextmanager
    def given(self, function: Callable | None = None, /, **sizes: int) -> Iterator[None]:
        """Let the subject's own functions that ask for a GPU's size, which stubs give, return this.

        function: whose file has them, if not the subject's
        multiprocessors: what `multiprocessors(device)` returns
        shared_memory: what `shared_memory(device)` returns, in bytes
        """
        lent = {name: lambda device, size=size: size for name, size in sizes.items()}
        with state.lending(launcher_globals(function or self.subject), lent):
            yield

    def works(
        self, make: Callable[[], GuardedCall], function: Callable, path: Path, gpu: Gpu
    ) -> list[Work]:
        """Return what each launch of a call does on a GPU that is not there: see `works_of`.

        function, path: the launcher and its file. Its own functions that ask for a GPU's size
            return this one's
        """
        sizes = {"multiprocessors": gpu.multiprocessors, "shared_memory": gpu.shared_memory}
        with self.given(function, **sizes):
            return works_of(make, path, gpu.target)
