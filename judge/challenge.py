"""A puzzle, as its test file sees it: the checks that hold a subject to its spec."""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from judge.compilation import ahead_of_time
from judge.core import paths
from judge.core.arguments import Arguments
from judge.core.dtypes import dtype_name, wide
from judge.core.settings import settings
from judge.core.tensors import nbytes
from judge.core.verdict import NotMeasured, Unsolved, Wrong
from judge.grading import Expected, Marking
from judge.inputs import room
from judge.interpreter import overflow
from judge.memory.budgets import Traffic
from judge.speed import gpu, measure
from judge.subject import loader, tamper
from judge.subject.canaries import MAX_COPIED_BYTES
from judge.subject.guard import one_stream
from judge.subject.guarded_call import Trial

# What the running test measured, for the scoreboard, by kind of check.
measured: dict[str, str] = {}
# The columns of the race that the running test made, for the table of times.
raced: dict[str, str] = {}

# Larger inputs are not run a second time with other contents: the interpreter is slow.
DISGUISED = 2**14
# In calls of more elements the terms behind a result are not measured, and a wrong result is not
# diagnosed: both run the reference many times, on numbers that the host draws.
DIAGNOSED = 2**24


def challenge(function: str, **spec) -> Challenge:
    """The puzzle whose test file calls this, for example puzzles/07_matmul/test_tiled.py.

    function: the name of the function to grade; the reference has the same name
    spec: see Marking
    """
    return Challenge(function, Path(sys._getframe(1).f_globals["__file__"]), **spec)


class Challenge(Marking):
    """One puzzle, and what its tests ask of a subject."""

    # Masked lanes that are loaded without `other` hold what spoils a result.
    _poison = True

    @property
    def subject(self) -> Callable:
        """The function to grade. Raises Unsolved or Wrong."""
        return self._graded(loader.load_subject(self.chapter, self.name, self.function))

    def check(self, *inputs, **options) -> None:
        """The whole check of one case: run the subject under guard, then compare with the truth.

        inputs, options: what the subject is called with. Raises Unsolved or Wrong.
        """
        arguments = self._arguments(inputs, options)
        trial = self._trial(arguments)
        size = sum(tensor.numel() for tensor in arguments.tensors.values())
        if not settings.interpreted or size <= DISGUISED:
            trial.disguise()
            trial.run(poison=self._poison)
            trial.restore()
        outcome = trial.run(order="shuffled", poison=self._poison)
        expected = self._expected(trial.original)
        self._compare(trial, outcome, expected)
        if self.deterministic:
            self._check_repeatable(trial, outcome)
        for config in range(1, outcome.configs):
            trial.restore()
            self._compare(trial, trial.run(order="shuffled", config=config), expected)

    def check_offsets(self, *inputs, **options) -> None:
        """The same check, and in the interpreter an int32 that overflows is an error."""
        # Poisoned integers overflow on their own.
        self._poison = False
        try:
            with overflow.overflow_errors() if settings.interpreted else contextlib.nullcontext():
                self.check(*inputs, **options)
        finally:
            self._poison = True

    def check_grid(self, *inputs, **options) -> None:
        """The same check on a GPU, of large calls without what takes minutes; in the interpreter,
        where so many programs take minutes, only that a GPU would take the grids of the launches.
        """
        arguments = self._arguments(inputs, options)
        outcome = self._trial(arguments).run(programs="none")
        if settings.interpreted:
            return
        size = sum(tensor.numel() for tensor in (*arguments.tensors.values(), *outcome.results))
        if size > DIAGNOSED:
            self._check_large(arguments, tuple(arguments.tensors.values()), outcome.results)
        else:
            self.check(*inputs, **options)

    def check_ends(self, *inputs, **options) -> None:
        """That offsets in a result of more than 2**31 elements are not of 32 bits.

        In the interpreter only the first and the last program of each launch run, on memory that is
        asked for and hardly touched, and their accesses are checked, not what they compute. On a
        GPU all run, and each element must be stored. Raises NotMeasured where memory is too small.
        """
        trial = self._trial(self._arguments(inputs, options))
        if not settings.interpreted:
            with gpu.alone():
                memory_permitting(trial.run)
            return
        room(MAX_COPIED_BYTES // 2, "float16")
        with overflow.overflow_errors():
            configs = trial.run(programs="ends", poison=False).configs
            for config in range(1, configs):
                trial.run(programs="ends", poison=False, config=config)

    @contextlib.contextmanager
    def multiprocessors(self, count: int) -> Iterator[None]:
        """In the body the subject's own `multiprocessors`, which the stub gives, counts so many."""
        names = inspect.unwrap(self.subject).__globals__
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(names, "multiprocessors", lambda device: count)
            yield

    def check_exactly(self, *inputs, **options) -> None:
        """The same check, and the result must be the truth itself, rounded once."""
        exact, self.exact = self.exact, True
        try:
            self.check(*inputs, **options)
        finally:
            self.exact = exact

    def rejects(self, error: type[Exception], *inputs, naming: str, **options) -> None:
        """Bad input raises `error`, and the message names the argument `naming`."""
        arguments = self._arguments(inputs, options)
        call = f"{self.function}({arguments})"
        where = paths.shown(self.path)
        wanted = f"{where}: {call} must raise {error.__name__} that names {naming}"
        try:
            self._trial(arguments).run()
        except Unsolved:
            raise
        except Wrong as wrong:
            raised = wrong.__cause__
            if not isinstance(raised, error) or isinstance(raised, Wrong):
                raise Wrong(f"{wanted}; instead:\n{wrong}") from wrong
            if not re.search(rf"\b{re.escape(naming)}\b", str(raised)):
                raise Wrong(f'{wanted}; its message is "{raised}"') from wrong
            return
        raise Wrong(f"{wanted}, but it returned\nhint: check the inputs before you allocate")

    def traffic(self, *inputs, **options) -> Traffic:
        """What one call moves. Returns the Traffic, whose `check` compares with a budget."""
        trial = self._trial(self._arguments(inputs, options))
        traffic = trial.run(count=True).watch.traffic
        measured["traffic"] = _moved(traffic)
        return traffic

    def keeps(self, *inputs, at_most: int, **options) -> None:
        """So many bytes at most stay for the backward pass, beside the inputs and the result."""
        trial = self._trial(self._arguments(inputs, options))
        trial.subject.keep = True
        out = trial.run().results[0]
        known = {x.untyped_storage().data_ptr() for x in (out, *trial.arguments.tensors.values())}
        beside = [x for x in trial.subject.kept if x.untyped_storage().data_ptr() not in known]
        size = nbytes(beside)
        if size > at_most:
            tensors = ", ".join(f"{dtype_name(x.dtype)} {tuple(x.shape)}" for x in beside)
            raise Wrong(
                f"{paths.shown(self.path)}: {self.function} keeps {size} bytes for the backward "
                f"pass beside its inputs and its result, the budget is {at_most}: {tensors}\n"
                "hint: what is cheap to make again in the backward pass need not be kept"
            )

    def compiles(self, *inputs, **options) -> None:
        """Every kernel that the subject launches compiles for real GPUs and fits them."""
        trial = self._trial(self._arguments(inputs, options))
        outcome = trial.run()
        launches = list(outcome.launches)
        for config in range(1, outcome.configs):
            launches += trial.run(config=config).launches
        ahead_of_time.check(launches, settings.targets, subject=self.path)

    def race(
        self,
        *inputs,
        at_least: float,
        bytes_moved: int | None = None,
        operations: tuple[float, str] | None = None,
        baseline: str | None = None,
        **options,
    ) -> None:
        """The subject is at least so many times as fast as the reference.

        bytes_moved: the least that any kernel must load and store; each input and result once if
            neither this nor operations is given
        operations: how many the tensor cores must do, a multiplication and an addition being two,
            and the dtype that they are done in
        """
        arguments = self._arguments(inputs, options)
        opponent = self._opponent(baseline or self.function)
        outcome = self._trial(arguments).run()
        if bytes_moved is None and operations is None:
            bytes_moved = nbytes((*arguments.tensors.values(), *outcome.results))
        del outcome
        subject = self._callable(self.subject, arguments)
        with gpu.alone():
            limits = gpu.measured_limits()
            with tamper.untouched(self.path), one_stream():
                race = measure.race(
                    subject,
                    self._callable(opponent, arguments),
                    tuple(arguments.tensors.values()),
                    at_least=at_least,
                    bytes_moved=bytes_moved,
                    operations=operations,
                    check=lambda tensors, result: self._check_large(arguments, tensors, result),
                    limits=limits,
                    scale=settings.speed_scale,
                )
        # Who works in the first call, and remembers or calls torch in later ones, is found out.
        self._trial(arguments).run()
        measured["speedup"] = race.summary()
        raced.update(race.columns())
        if race.verdict != "passed":
            raise Wrong(f"{paths.shown(self.path)}: {race.message()}")

    def _check_large(self, arguments: Arguments, tensors: tuple, results: tuple) -> None:
        """Raises Wrong, without a diagnosis. tensors: the numbers that the arguments held"""
        reference = self._reference(arguments)
        truth = reference(*map(wide, tensors))
        # One yardstick does at such a size, and takes the memory of one.
        yardsticks = tuple([result] for result in reference(*tensors))
        expected = Expected(truth, yardsticks, (None,) * len(truth))
        self._check_forms(results, expected)
        for number, got in enumerate(results):
            if mismatch := self._mismatch(number, got, expected):
                raise Wrong(mismatch.message(f"{self.function}({arguments})"))

    def _arguments(self, inputs: tuple, options: dict) -> Arguments:
        parameters = inspect.signature(self.reference).parameters
        return Arguments(tuple(parameters), inputs, options)

    def _trial(self, arguments: Arguments) -> Trial:
        trial = Trial(
            self.subject,
            self.path,
            arguments,
            in_place=self.in_place,
            interpreted=settings.interpreted,
        )
        trial.restore()
        return trial


def memory_permitting(run: Callable) -> None:
    """Call it. Raises NotMeasured where the GPU's memory does not suffice."""
    try:
        run()
    except (Wrong, torch.OutOfMemoryError) as error:
        if not isinstance(error.__cause__ or error, torch.OutOfMemoryError):
            raise
        raise NotMeasured("this GPU has too little memory for so large a result") from None


def _moved(traffic: Traffic) -> str:
    """What was read and written how often, for the scoreboard."""
    moves = [
        (name, verb, times)
        for name, moved in traffic.tensors.items()
        for verb, times in (("read", moved.loads), ("written", moved.stores))
        if times
    ]
    return ", ".join(f"{name} {verb} {times:.3g}x" for name, verb, times in moves)
