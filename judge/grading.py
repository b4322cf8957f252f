"""What is right for a puzzle, and how a wrong result of its subject is told."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from judge.core import paths
from judge.core.arguments import Arguments
from judge.core.dtypes import wide
from judge.core.launch import blocks_of
from judge.core.settings import settings
from judge.core.verdict import Wrong
from judge.diagnosis import mistakes, report
from judge.diagnosis.source import Source
from judge.diagnosis.wrong_result import Mistake
from judge.numerics import compare
from judge.numerics.perturbation import rounded_runs, term_size
from judge.subject import loader
from judge.subject.gradients import Differentiable
from judge.subject.guarded_call import Outcome, Trial, name_of


@dataclass(frozen=True)
class Expected:
    """What the reference gives: in float64, in the inputs' own dtype, and the size of its terms."""

    truth: tuple[torch.Tensor, ...]
    yardsticks: tuple[list[torch.Tensor], ...]
    terms: tuple[torch.Tensor | None, ...]


class Marking:
    """One puzzle: its files, its reference, and the rules for its results.

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

    @property
    def path(self) -> Path:
        """The file that is graded."""
        return settings.subjects / self.chapter / f"{self.name}.py"

    @property
    def reference(self) -> Callable:
        return self._opponent(self.function)

    def _opponent(self, function: str) -> Callable:
        return self._graded(loader.load_reference(self.chapter, function))

    def _graded(self, function: Callable) -> Callable:
        return Differentiable(function) if self.gradients else function

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
        self._check_forms(outcome.results, expected)
        for number, got in enumerate(outcome.results):
            mismatch = self._mismatch(number, got, expected)
            if mismatch:
                message = report.describe(
                    got,
                    expected.truth[number],
                    mismatch,
                    inputs=trial.original.tensors,
                    mistakes=self._mistakes(trial.original, outcome, number, expected),
                    anything=not outcome.watch or bool(outcome.watch.loads_without_other),
                    source=Source.of(self.path.read_text(encoding="utf-8")),
                )
                call = f"{paths.shown(self.path)}: {self.function}({trial.original})"
                causes = self._causes(trial, outcome, number, expected)
                raise Wrong("\n".join([call, message, *causes]))

    def _mismatch(
        self, number: int, got: torch.Tensor, expected: Expected
    ) -> compare.Mismatch | None:
        return compare.compare(
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
        own = loader.load_mistakes(self.chapter, self.function)
        return mistakes.tried(question, names, expected.truth, own)

    def _causes(
        self, trial: Trial, outcome: Outcome, number: int, expected: Expected
    ) -> Iterator[str]:
        """Sentences about what makes the result right when it is changed."""
        if outcome.config:
            yield f"with the autotuner's {outcome.config}"
        if not trial.interpreted:
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

    def _check_forms(self, results: tuple[torch.Tensor, ...], expected: Expected) -> None:
        if len(results) != len(expected.yardsticks):
            raise Wrong(
                f"{paths.shown(self.path)}: {self.function} returned {len(results)} "
                f"tensors, not {len(expected.yardsticks)}"
            )
        for number, got in enumerate(results):
            self._check_form(got, expected.yardsticks[number][0], number)

    def _check_form(self, got: torch.Tensor, right: torch.Tensor, number: int) -> None:
        name = self._name(number)
        for aspect, found, expected in (
            ("shape", tuple(got.shape), tuple(right.shape)),
            ("dtype", got.dtype, right.dtype),
            ("device", got.device, right.device),
        ):
            if found != expected:
                raise Wrong(
                    f"{paths.shown(self.path)}: {name} has {aspect} {found}, not {expected}"
                )
        if not self.in_place and not got.is_contiguous():
            raise Wrong(
                f"{paths.shown(self.path)}: {name} is not contiguous: its strides are "
                f"{got.stride()} for shape {tuple(got.shape)}"
            )

    def _check_repeatable(self, trial: Trial, outcome: Outcome) -> None:
        trial.restore()
        again = trial.run(order="shuffled", seed=1)
        for number, (first, second) in enumerate(zip(outcome.results, again.results, strict=True)):
            if not torch.equal(bits(first), bits(second)):
                raise Wrong(
                    f"{paths.shown(self.path)}: {self._name(number)} differs between two runs on "
                    "the same input\nhint: atomics add in no fixed order; write partial results "
                    "and sum them in a second kernel"
                )


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a contiguous tensor, for comparison that NaN does not disturb."""
    return tensor.reshape(-1).view(torch.uint8)
