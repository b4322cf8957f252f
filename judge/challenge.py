"""A puzzle, as its test file sees it: the checks that hold a subject to its spec."""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from judge import (
    compilation,
    diagnosis,
    interpreter,
    loading,
    machine,
    mistakes,
    numerics,
    speed,
    tamper,
)
from judge.evidence import Mistake
from judge.gradients import Differentiable
from judge.guard import one_stream
from judge.launches import blocks_of
from judge.perturbation import rounded_runs, term_size
from judge.traffic import Traffic
from judge.trial import Arguments, Outcome, Trial, name_of
from judge.verdict import Unsolved, Wrong

# Set by judge.session.
interpreted = True
targets: tuple[str, ...] = ("sm_80", "sm_90")

# What the running test measured, for the scoreboard, by kind of check.
measured: dict[str, str] = {}
# The columns of the race that the running test made, for the table of times.
raced: dict[str, str] = {}

# Larger inputs are not run a second time with other contents: the interpreter is slow.
DISGUISED = 2**14


@dataclass(frozen=True)
class Expected:
    """What the reference gives: in float64, in the inputs' own dtype, and the size of its terms."""

    truth: tuple[torch.Tensor, ...]
    yardsticks: tuple[list[torch.Tensor], ...]
    terms: tuple[torch.Tensor | None, ...]


def challenge(function: str, **spec) -> Challenge:
    """The puzzle whose test file calls this, for example puzzles/07_matmul/test_tiled.py.

    function: the name of the function to grade; the reference has the same name
    spec: see Challenge
    """
    return Challenge(function, Path(sys._getframe(1).f_globals["__file__"]), **spec)


class Challenge:
    """One puzzle: its stub, its reference and what its results are called.

    results: names of the results, for messages, where there is more than one
    in_place: parameters that the subject changes; it then returns None
    exact: results must equal the reference's bit for bit (copies, gathers), not within tolerance
    deterministic: two runs must agree bit for bit
    input_precision: "tf32" where the spec lets float32 factors of a tl.dot be rounded to tf32
    gradients: the subject is differentiable. A case with `dout=` grades its one result and the
        gradient of each input, against autograd through the reference
    rounded: take more yardsticks, runs of the reference with every step rounded at random: for
        references in which large terms cancel between steps, as in attention's backward pass
    """

    def __init__(
        self,
        function: str,
        test_file: Path,
        *,
        results: tuple[str, ...] = (),
        in_place: tuple[str, ...] = (),
        exact: bool | None = None,
        deterministic: bool = False,
        input_precision: str | None = None,
        gradients: bool = False,
        rounded: bool = False,
    ):
        self.function = function
        self.chapter = test_file.parent.name
        self.name = test_file.stem.removeprefix("test_")
        self.results, self.in_place = results, in_place
        self.exact, self.deterministic = exact, deterministic
        self.input_precision, self.rounded = input_precision, rounded
        self.gradients = gradients
        if gradients:
            inputs = inspect.signature(self.reference).parameters.values()
            self.results = ("out", *(f"d{x.name}" for x in inputs if x.default is x.empty))
        self._poison = True

    @property
    def path(self) -> Path:
        """The file that is graded."""
        return loading.subjects / self.chapter / f"{self.name}.py"

    @property
    def subject(self) -> Callable:
        """The function to grade. Raises Unsolved or Wrong."""
        return self._graded(loading.load_subject(self.chapter, self.name, self.function))

    @property
    def reference(self) -> Callable:
        return self._opponent(self.function)

    def _opponent(self, function: str) -> Callable:
        return self._graded(loading.load_reference(self.chapter, function))

    def _graded(self, function: Callable) -> Callable:
        return Differentiable(function) if self.gradients else function

    def check(self, *inputs, **options) -> None:
        """The whole check of one case: run the subject under guard, then compare with the truth.

        inputs, options: what the subject is called with. Raises Unsolved or Wrong.
        """
        arguments = self._arguments(inputs, options)
        trial = self._trial(arguments)
        size = sum(tensor.numel() for tensor in arguments.tensors.values())
        if not interpreted or size <= DISGUISED:
            trial.disguise()
            trial.run(poison=self._poison)
            trial.restore()
        outcome = trial.run(order="shuffled", poison=self._poison)
        expected = self._expected(arguments)
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
            with interpreter.overflow_errors() if interpreted else contextlib.nullcontext():
                self.check(*inputs, **options)
        finally:
            self._poison = True

    def check_grid(self, *inputs, **options) -> None:
        """The same check on a GPU; in the interpreter, where so many programs take minutes, only
        that a GPU would take the grids of the launches."""
        if interpreted:
            self._trial(self._arguments(inputs, options)).run(programs=False)
        else:
            self.check(*inputs, **options)

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
        where = loading.shown(self.path)
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
        size = sum(x.numel() * x.element_size() for x in beside)
        if size > at_most:
            tensors = ", ".join(f"{str(x.dtype)[6:]} {tuple(x.shape)}" for x in beside)
            raise Wrong(
                f"{loading.shown(self.path)}: {self.function} keeps {size} bytes for the backward "
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
        compilation.check(launches, targets, subject=self.path)

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
            tensors = [*arguments.tensors.values(), *outcome.results]
            bytes_moved = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        del outcome
        subject = self._callable(self.subject, arguments)
        with machine.alone():
            limits = machine.measured_limits()
            with tamper.untouched(self.path), one_stream():
                race = speed.race(
                    subject,
                    self._callable(opponent, arguments),
                    tuple(arguments.tensors.values()),
                    at_least=at_least,
                    bytes_moved=bytes_moved,
                    operations=operations,
                    check=lambda tensors, result: self._check_timed(arguments, tensors, result),
                    limits=limits,
                    scale=machine.scale,
                )
        # Who works in the first call, and remembers or calls torch in later ones, is found out.
        self._trial(arguments).run()
        measured["speedup"] = race.summary()
        raced.update(race.columns())
        if race.verdict != "passed":
            raise Wrong(f"{loading.shown(self.path)}: {race.message()}")

    def _callable(self, function: Callable, arguments: Arguments) -> Callable:
        """The function, to be called with tensors alone; what it changes in place it returns."""
        names = list(arguments.tensors)

        def call(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            given = dict(zip(names, tensors, strict=True))
            now = arguments.map(lambda name, _: given[name])
            returned = function(*now.positional, **now.keyword)
            if self.in_place:
                return tuple(given[name] for name in self.in_place)
            return returned if isinstance(returned, tuple) else (returned,)

        return call

    def _check_timed(self, arguments: Arguments, tensors: tuple, results: tuple) -> None:
        reference = self._reference(arguments)
        truth = reference(*map(wide, tensors))
        # One yardstick does at such a size, and takes the memory of one.
        yardsticks = tuple([result] for result in reference(*tensors))
        expected = Expected(truth, yardsticks, (None,) * len(truth))
        for number, got in enumerate(results):
            if mismatch := self._mismatch(number, got, expected):
                raise Wrong(mismatch.message())

    def _arguments(self, inputs: tuple, options: dict) -> Arguments:
        parameters = inspect.signature(self.reference).parameters
        return Arguments(tuple(parameters), inputs, options)

    def _trial(self, arguments: Arguments) -> Trial:
        trial = Trial(
            self.subject, self.path, arguments, in_place=self.in_place, interpreted=interpreted
        )
        trial.restore()
        return trial

    def _name(self, number: int) -> str:
        names = self.results or self.in_place
        return names[number] if names else name_of(number, 1)

    def _expected(self, arguments: Arguments) -> Expected:
        reference = self._reference(arguments)
        tensors = list(arguments.tensors.values())
        truth = reference(*map(wide, tensors))
        terms = [None] * len(truth) if self.exact else term_size(reference, tensors)
        return Expected(truth, self._yardsticks(reference, tensors), tuple(terms))

    def _reference(self, arguments: Arguments) -> Callable:
        """The reference, to be called with tensors alone, which it leaves as they are."""
        evaluate = self._callable(self.reference, arguments)

        def reference(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return evaluate(*(tensor.clone() if self.in_place else tensor for tensor in tensors))

        return reference

    def _yardsticks(
        self, reference: Callable, tensors: list[torch.Tensor]
    ) -> tuple[list[torch.Tensor], ...]:
        own = reference(*tensors)
        if not self.rounded:
            return tuple([result] for result in own)
        dtype = next(tensor.dtype for tensor in tensors if tensor.is_floating_point())
        more = rounded_runs(reference, tensors, dtype)
        return tuple([result, *runs] for result, runs in zip(own, more, strict=True))

    def _compare(self, trial: Trial, outcome: Outcome, expected: Expected) -> None:
        if len(outcome.results) != len(expected.yardsticks):
            raise Wrong(
                f"{loading.shown(self.path)}: {self.function} returned {len(outcome.results)} "
                f"tensors, not {len(expected.yardsticks)}"
            )
        for number, got in enumerate(outcome.results):
            self._check_form(got, expected.yardsticks[number][0], number)
        for number, got in enumerate(outcome.results):
            mismatch = self._mismatch(number, got, expected)
            if mismatch:
                message = diagnosis.describe(
                    got,
                    expected.truth[number],
                    mismatch,
                    inputs=trial.original.tensors,
                    mistakes=self._mistakes(trial.original, outcome, number, expected),
                    anything=not outcome.watch or bool(outcome.watch.loads_without_other),
                )
                call = f"{loading.shown(self.path)}: {self.function}({trial.original})"
                causes = self._causes(trial, outcome, number, expected)
                raise Wrong("\n".join([call, message, *causes]))

    def _mismatch(
        self, number: int, got: torch.Tensor, expected: Expected
    ) -> numerics.Mismatch | None:
        return numerics.compare(
            got,
            expected.truth[number],
            expected.yardsticks[number],
            exact=self.exact,
            name=self._name(number),
            magnitude=expected.terms[number],
            input_precision=self.input_precision if got.dtype == torch.float32 else None,
        )

    def _mistakes(
        self, arguments: Arguments, outcome: Outcome, number: int, expected: Expected
    ) -> Iterator[Mistake]:
        """What may have been done wrong, for the diagnosis to try."""
        question = mistakes.asked(
            self.reference,
            lambda given: self._reference(given)(*map(wide, given.tensors.values())),
            arguments,
            got=outcome.results,
            truth=expected.truth,
            mismatch=lambda other, got: self._mismatch(other, got, expected),
            number=number,
            blocks=blocks_of(outcome.launches),
        )
        names = [self._name(other) for other in range(len(outcome.results))]
        own = loading.load_mistakes(self.chapter, self.function)
        return mistakes.tried(question, names, expected.truth, own)

    def _causes(
        self, trial: Trial, outcome: Outcome, number: int, expected: Expected
    ) -> Iterator[str]:
        """Sentences about what makes the result right when it is changed."""
        if outcome.config:
            yield f"with the autotuner's {outcome.config}"
        if not interpreted:
            return

        def right_if(**how) -> bool:
            trial.restore()
            try:
                again = trial.run(**how)
            except Wrong:
                return False
            return self._mismatch(number, again.results[number], expected) is None

        sites = outcome.watch.loads_without_other
        if sites and right_if(order="shuffled", poison=False):
            lines = ", ".join(f"{Path(file).name}:{line}" for file, line in sites)
            yield (
                f"cause: masked lanes of the load at {lines} reach the result, and without other= "
                "they hold anything: say other="
            )
        elif right_if(order="ascending"):
            yield (
                "cause: right when the programs run one after the other in order, wrong in another "
                "order: a GPU runs them in any order and at once"
            )

    def _check_form(self, got: torch.Tensor, right: torch.Tensor, number: int) -> None:
        name = self._name(number)
        for aspect, found, expected in (
            ("shape", tuple(got.shape), tuple(right.shape)),
            ("dtype", got.dtype, right.dtype),
            ("device", got.device, right.device),
        ):
            if found != expected:
                raise Wrong(
                    f"{loading.shown(self.path)}: {name} has {aspect} {found}, not {expected}"
                )
        if not self.in_place and not got.is_contiguous():
            raise Wrong(
                f"{loading.shown(self.path)}: {name} is not contiguous: its strides are "
                f"{got.stride()} for shape {tuple(got.shape)}"
            )

    def _check_repeatable(self, trial: Trial, outcome: Outcome) -> None:
        trial.restore()
        again = trial.run(order="shuffled", seed=1)
        for number, (first, second) in enumerate(zip(outcome.results, again.results, strict=True)):
            if not torch.equal(bits(first), bits(second)):
                raise Wrong(
                    f"{loading.shown(self.path)}: {self._name(number)} differs between two runs on "
                    "the same input\nhint: atomics add in no fixed order; write partial results "
                    "and sum them in a second kernel"
                )


def _moved(traffic: Traffic) -> str:
    """What was read and written how often, for the scoreboard."""
    moves = [
        (name, verb, times)
        for name, moved in traffic.tensors.items()
        for verb, times in (("read", moved.loads), ("written", moved.stores))
        if times
    ]
    return ", ".join(f"{name} {verb} {times:.3g}x" for name, verb, times in moves)


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers in float64 or complex128; integers stay."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.to(torch.float64) if tensor.is_floating_point() else tensor


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a contiguous tensor, for comparison that NaN does not disturb."""
    return tensor.reshape(-1).view(torch.uint8)
