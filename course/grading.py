"""Grade the results of a subject: what they should be, how they differ, and why that may be."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from course import loader, paths
from course.inputs import current
from kernelgauge.core.arguments import Arguments
from kernelgauge.core.dtypes import double, wide
from kernelgauge.core.kept import kept
from kernelgauge.core.launch import blocks_of
from kernelgauge.core.paths import display_path
from kernelgauge.core.settings import settings
from kernelgauge.core.tensors import flat
from kernelgauge.core.verdict import Verdict, Wrong
from kernelgauge.diagnosis import mistakes, report
from kernelgauge.diagnosis.other_cases import Evidence, OtherCase
from kernelgauge.diagnosis.source import Source
from kernelgauge.diagnosis.wrong_result import Mistake, WrongResult
from kernelgauge.memory.nonfinite import LOADED, Origin, Origins
from kernelgauge.numerics.compare import Mismatch, Rule
from kernelgauge.numerics.perturbation import rounded_runs, term_size
from kernelgauge.subject.gradients import Differentiable
from kernelgauge.subject.guarded_call import GuardedCall, Outcome, name_of
from kernelgauge.subject.late_rank import Lateness, has_meetings, names_by_rank
from kernelgauge.words import show_place

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Spec:
    """One puzzle: its files, its functions, and the rules for its results.

    function: the name of the function to grade; the reference has the same name
    test_file: puzzles/NN_chapter/test_name.py, or production/test_name.py in that folder
    results: names of the results, for messages, where there is more than one
    in_place: parameters that the subject changes; it then returns None
    exact: results must equal the reference's bit for bit (copies, gathers), not within tolerance;
        or the names of those results that must
    deterministic: two runs must agree bit for bit
    input_precision: "tf32" where the spec lets float32 factors of a tl.dot be rounded to tf32;
        "fp8" where the sums may be as exact as tensor cores make them of 8-bit floats
    gradients: the subject is differentiable. A case with `dout=` grades its one result and the
        gradient of each input, against autograd through the reference
    rounded_on_the_way: one more rounding to the input's dtype is allowed, as shipped code makes it
        of a normalized row before the weight, or of silu before the product
    ranks: the arguments are lists, with a tensor for each rank, which lie on all GPUs
    alike: the results of all ranks must agree bit for bit; or the names of those that must
    rounded: take more yardsticks, runs of the reference with every step rounded at random: for
        references in which large terms cancel between steps, as in attention's backward pass
    """

    function: str
    test_file: Path
    results: tuple[str, ...] = ()
    in_place: tuple[str, ...] = ()
    exact: bool | tuple[str, ...] | None = None
    deterministic: bool = False
    input_precision: str | None = None
    gradients: bool = False
    rounded_on_the_way: bool = False
    ranks: bool = False
    alike: bool | tuple[str, ...] = False
    rounded: bool = False

    @property
    def chapter(self) -> str:
        """The folder of the puzzle, 07_matmul."""
        return paths.puzzle_at(self.test_file)[0]

    @property
    def name(self) -> str:
        """The name of the puzzle's files, tiled."""
        return paths.puzzle_at(self.test_file)[1]

    @property
    def is_production(self) -> bool:
        """Whether the test file is one of the second level."""
        return self.test_file.parent.name == paths.PRODUCTION

    @property
    def path(self) -> Path:
        """The file that is graded."""
        return settings.subjects / self.chapter / f"{self.name}.py"

    @property
    def subject(self) -> Callable:
        """The function to grade. Raises Unsolved or Wrong."""
        return self._graded(loader.load_subject(self.chapter, self.name, self.function))

    @property
    def reference(self) -> Callable:
        """The function of the same name in reference/, which gives the right results."""
        return self.opponent(self.function)

    def opponent(self, function: str) -> Callable:
        """A function of the chapter's reference file, or our "solution", to race with."""
        if function == "solution":
            solution = paths.load(paths.SOLUTIONS / self.chapter / f"{self.name}.py")
            return self._graded(getattr(solution, self.function))
        return self._graded(loader.load_reference(self.chapter, function))

    def _graded(self, function: Callable) -> Callable:
        return Differentiable(function) if self.gradients else function

    def name_of(self, number: int, count: int = 1) -> str:
        """What messages call a result of so many: averages[2], where each name is of a list."""
        names = self.results or self.in_place
        if self.gradients:
            inputs = inspect.signature(self.reference).parameters.values()
            names = ("out", *(f"d{x.name}" for x in inputs if x.default is x.empty))
        if not names or count <= len(names):
            return names[number] if names else name_of(number, count)
        ranks = count // len(names)
        return f"{names[number // ranks]}[{number % ranks}]"

    def on_tensors(self, function: Callable, arguments: Arguments) -> Callable[..., Tensors]:
        """The function, to be called with tensors alone; what it changes in place it returns."""
        names = list(arguments.tensors)

        def call(*tensors: torch.Tensor) -> Tensors:
            given = dict(zip(names, tensors, strict=True))
            now = arguments.map(lambda name, _: given[name])
            returned = function(*now.positional, **now.keyword)
            if self.in_place:
                return tuple(given[name] for name in self.in_place)
            if arguments.lists:
                return flat(returned)
            return returned if isinstance(returned, tuple) else (returned,)

        return call


class Expected:
    """What the reference gives. What takes many runs of it is found when it is first asked for.

    truth: in float64
    own: in the inputs' own dtype
    yardsticks: for each result, those of `compare`
    terms: for each result, the size of its terms; None if the comparison is exact
    rules: those of `compare` that were made of all this
    """

    def __init__(
        self,
        truth: Tensors,
        own: Tensors,
        yardsticks: Callable[[], Sequence[list[torch.Tensor]]],
        terms: Callable[[], Sequence[torch.Tensor | None]],
    ):
        self.truth, self.own = truth, own
        self.rules: dict[tuple, Rule] = {}
        self._yardsticks, self._terms = yardsticks, terms

    @cached_property
    def yardsticks(self) -> Sequence[list[torch.Tensor]]:
        """Return the reference's results as yardsticks of what it loses."""
        return self._yardsticks()

    @cached_property
    def terms(self) -> Sequence[torch.Tensor | None]:
        """Return the sizes of the terms behind each element."""
        return self._terms()


class ResultCheck:
    """Compares the results of a puzzle's subject with those of its reference.

    exact: instead of the spec's, for cases whose result must be the truth itself, rounded once
    others: returns other cases, to confirm a diagnosis or to refute it. It takes a function that
        returns what this case tells about them in turn
    named: the causes that were named of other failures, to which this check adds
    mismatch: where a result that was compared is wrong
    """

    def __init__(
        self,
        spec: Spec,
        exact: bool | tuple[str, ...] | None = None,
        others: Callable[[Callable[[], OtherCase]], Sequence[OtherCase]] = lambda this: (),
        named: list[str] | None = None,
    ):
        self.spec, self.others = spec, others
        self.named = [] if named is None else named
        self.exact = spec.exact if exact is None else exact
        self.mismatch: Mismatch | None = None

    def expected(self, arguments: Arguments) -> Expected:
        """Evaluate the reference, in float64 and in the inputs' own dtype."""
        key = self.spec, "expected", self.exact
        return kept.get(key, arguments, lambda: self._expected(arguments))

    def _expected(self, arguments: Arguments) -> Expected:
        reference = self._reference(arguments)
        tensors = list(arguments.tensors.values())
        truth, own = reference(*map(wide, tensors)), reference(*tensors)
        return Expected(
            truth,
            own,
            lambda: self._yardsticks(reference, tensors, own),
            lambda: [None] * len(truth) if self.exact else term_size(reference, tensors),
        )

    def compare(self, call: GuardedCall, outcome: Outcome, expected: Expected) -> None:
        """Raises Wrong, with a diagnosis, unless the results of a call are right."""
        others = partial(self.others, lambda: self.other_case(call, outcome, expected))
        self._check_forms(outcome.results, expected)
        for number, got in enumerate(outcome.results):
            if mismatch := self._mismatch(number, got, expected):
                self.mismatch = mismatch
                causes = list(self._causes(call, outcome, number, expected))
                store = outcome.watch and outcome.watch.store_of(got, mismatch.worst)
                message = report.describe(
                    got,
                    expected.truth[number],
                    mismatch,
                    inputs=call.original.tensors,
                    mistakes=self._mistakes(call.original, outcome, number, expected),
                    anything=not outcome.watch or bool(outcome.watch.loads_without_other),
                    source=self._source(),
                    evidence=Evidence(number, others, self.named),
                    stored=f"program {store.program} at {show_place(store.line)}"
                    if store
                    else None,
                    origin=self._origin(call, outcome, number, expected),
                    at_fault=partial(self._option_at_fault, call, number, others),
                    known=any(cause.startswith("cause: ") for cause in causes),
                )
                title = f"{display_path(self.spec.path)}: {self.spec.function}({call.original})"
                raise Wrong("\n".join([title, message, *causes]))

    def _origin(
        self, call: GuardedCall, outcome: Outcome, number: int, expected: Expected
    ) -> Origin | None:
        """Run the program again that stored NaN or infinity instead of a number, and see why."""
        got, truth = outcome.results[number], expected.truth[number]
        # In float64, since torch does not ask this of 8-bit floats.
        hit = ~torch.isfinite(double(got)) & torch.isfinite(double(truth.to(got.device)))
        if not outcome.watch or not hit.any():
            return None
        store = outcome.watch.store_of(got, tuple(hit.nonzero()[0].tolist()))
        if store is None:
            return None
        watch = outcome.watch
        for program in (store.program, None):
            call.restore()
            with Origins(program) as origins, contextlib.suppress(Wrong):
                call.run(order=watch.order, seed=watch.seed, poison=watch.poison)
            # NaN that an earlier kernel stored was made by another program.
            if origins.found.operation != LOADED or origins.found.unset:
                break
        return origins.found

    def _option_at_fault(
        self, call: GuardedCall, number: int, others: Callable[[], Sequence[OtherCase]]
    ) -> str | None:
        """Name the option without which the same call is right, if one was given."""
        given = call.original
        for name, parameter in inspect.signature(self.spec.reference).parameters.items():
            value, default = given.values.get(name, parameter.default), parameter.default
            if default is parameter.empty or isinstance(value, torch.Tensor) or value == default:
                continue
            failing = (case.values for case in others() if number in case.wrong)
            if any(values.get(name, default) == default for values in failing):
                # What fails without the option, too, does not depend on it.
                continue
            other = GuardedCall(
                call.subject,
                call.path,
                given.replaced({name: default}),
                in_place=call.in_place,
                readable=call.readable,
                interpreted=call.interpreted,
            )
            other.restore()
            try:
                results = other.run(order="shuffled").results
            except Verdict:
                continue
            if self._mismatch(number, results[number], self.expected(other.original)) is None:
                return (
                    f"what depends on {name}: the same call is right with {name} = {default}, and "
                    f"wrong with {value}"
                )
        return None

    def other_case(self, call: GuardedCall, outcome: Outcome, expected: Expected) -> OtherCase:
        """Return what this call tells about the failure of another one. Raises Wrong."""
        self._check_forms(outcome.results, expected)
        wrong = {}
        for number, got in enumerate(outcome.results):
            if mismatch := self._mismatch(number, got, expected):
                inputs, source = call.original.tensors, self._source()
                truth = expected.truth[number]
                wrong[number] = WrongResult(got, truth, mismatch, inputs, source=source)
        return OtherCase(
            current(),
            wrong,
            lambda number: self._mistakes(call.original, outcome, number, expected),
            call.original.values,
        )

    def _source(self) -> Source:
        return Source.of(self.spec.path.read_text(encoding="utf-8"))

    def compare_large(self, arguments: Arguments, tensors: Tensors, results: Tensors) -> None:
        """Raises Wrong, without a diagnosis, where running the reference many times is too slow.

        tensors: the numbers that the arguments held
        """
        reference = self._reference(arguments)
        truth, own = reference(*map(wide, tensors)), reference(*tensors)
        # Few yardsticks do at such a size, and take the memory of few.
        expected = Expected(
            truth,
            own,
            lambda: self._yardsticks(reference, tensors, own, runs=2),
            lambda: [None] * len(own),
        )
        self._check_forms(results, expected)
        for number, got in enumerate(results):
            if mismatch := self._mismatch(number, got, expected):
                raise Wrong(mismatch.message(f"{self.spec.function}({arguments})"))

    def check_repeatable(self, call: GuardedCall, outcome: Outcome, *, poison: bool) -> None:
        """Raises Wrong unless another run on the same input gives the same bits."""
        call.restore()
        again = call.run(order="shuffled", seed=1, poison=poison)
        for number, (first, second) in enumerate(zip(outcome.results, again.results, strict=True)):
            name = self.spec.name_of(number, len(outcome.results))
            if not torch.equal(_bytes_of(first), _bytes_of(second)):
                raise Wrong(
                    f"{display_path(self.spec.path)}: {name} differs between "
                    "two runs on the same input\nhint: atomics add in no fixed order; write "
                    "partial results and sum them in a second kernel"
                )

    def check_late(self, call: GuardedCall, expected: Expected, *, poison: bool) -> None:
        """Raises Wrong unless the results stay right when the first or the last rank is late."""
        count = len(names_by_rank(call.original.tensors)) if self.spec.ranks else 0
        shown = has_meetings(call.subject) if settings.interpreted else len(call.devices) > 1
        if count < 2 or not shown:
            return

        def wrong(**late: Any) -> Mismatch | None:
            call.restore()
            results = call.run(poison=poison, late=Lateness(**late)).results
            found = (self._mismatch(number, got, expected) for number, got in enumerate(results))
            return next(filter(None, found), None)

        for rank in (0, count - 1):
            if mismatch := wrong(rank=rank):
                if wrong(rank=rank, arrives_late=False, overwritten=False):
                    where = "between two launches of which one reads what another rank's stored"
                elif wrong(rank=rank, overwritten=False):
                    where = "before the first launch: a peer's tensor may not be there yet"
                else:
                    where = "before you return: a peer may still read what its owner overwrites"
                raise Wrong(
                    f"{display_path(self.spec.path)}: {self.spec.function}({call.original})\n"
                    f"wrong when rank {rank} is late, that is, when its GPU gets its inputs and "
                    f"starts its launches after the others: nobody waits for it\n"
                    f"{mismatch.message()}\nhint: meet {where}"
                )
        call.restore()

    def check_alike(self, results: Tensors) -> None:
        """Raises Wrong unless the results of all ranks have the same bits."""
        names = [self.spec.name_of(number, len(results)) for number in range(len(results))]
        if isinstance(self.spec.alike, tuple):
            pairs = zip(names, results, strict=True)
            results = tuple(x for name, x in pairs if name.partition("[")[0] in self.spec.alike)
        for rank, result in enumerate(results):
            if not torch.equal(_bytes_of(result.to(results[0].device)), _bytes_of(results[0])):
                raise Wrong(
                    f"{display_path(self.spec.path)}: {self.spec.function} gives rank {rank} and "
                    "rank 0 results whose last bits differ\nhint: let every rank add in the same "
                    "order, from rank 0 on: rounding makes another order another sum"
                )

    def _reference(self, arguments: Arguments) -> Callable[..., Tensors]:
        """The reference, to be called with tensors alone, which it leaves as they are."""
        evaluate = self.spec.on_tensors(self.spec.reference, arguments)

        def reference(*tensors: torch.Tensor) -> Tensors:
            in_place = self.spec.in_place
            return evaluate(*(tensor.clone() if in_place else tensor for tensor in tensors))

        return reference

    def _yardsticks(
        self,
        reference: Callable[..., Tensors],
        tensors: Sequence[torch.Tensor],
        own: Tensors,
        runs: int = 8,
    ) -> list[list[torch.Tensor]]:
        if not self.spec.rounded:
            return [[result] for result in own]
        dtype = next(tensor.dtype for tensor in tensors if tensor.is_floating_point())
        more = rounded_runs(reference, tensors, dtype, runs=runs)
        return [[result, *samples] for result, samples in zip(own, more, strict=True)]

    def _mismatch(self, number: int, got: torch.Tensor, expected: Expected) -> Mismatch | None:
        # Terms and yardsticks only ever allow more, and most right results do without.
        found = None
        for yardsticks, terms in (("truth", False), ("own", True), ("all", True)):
            if yardsticks == "all" and not self.spec.rounded:
                continue
            found = self._rule(number, got.dtype, expected, yardsticks, terms).mismatch(got)
            if found is None or found.exact:
                break
        return found

    def _rule(
        self, number: int, dtype: torch.dtype, expected: Expected, yardsticks: str, terms: bool
    ) -> Rule:
        """What a result of this dtype may be.

        yardsticks: the "truth", which loses nothing, the reference's "own" result, or "all"
        terms: whether their size counts
        """
        precision = self._input_precision(dtype)
        key = number, dtype, yardsticks, terms, self.exact, precision
        if key in expected.rules:
            return expected.rules[key]
        truth, exact = expected.truth[number], self.exact
        name = self.spec.name_of(number, len(expected.truth))
        if isinstance(exact, tuple):
            exact = name.partition("[")[0] in exact or None
        nothing = torch.zeros_like(truth, dtype=torch.float64)
        yardstick: torch.Tensor | list[torch.Tensor]
        if yardsticks == "all":
            yardstick = expected.yardsticks[number]
        else:
            yardstick = expected.own[number] if yardsticks == "own" else truth
        rule = expected.rules[key] = Rule(
            truth,
            yardstick,
            exact=exact,
            name=name,
            magnitude=expected.terms[number] if terms else nothing,
            input_precision=precision,
            roundings=2 if self.spec.rounded_on_the_way else 1,
        )
        return rule

    def _input_precision(self, dtype: torch.dtype) -> str | None:
        """What a result of this dtype may lose in the tensor cores, as `compare` takes it."""
        precision = self.spec.input_precision
        if precision == "fp8":
            # In the interpreter such sums are exact.
            return None if settings.interpreted else precision
        return precision if dtype == torch.float32 else None

    def _mistakes(
        self, arguments: Arguments, outcome: Outcome, number: int, expected: Expected
    ) -> Iterator[Mistake]:
        """What may have been done wrong, for the diagnosis to try."""

        def truth(given: Arguments) -> Tensors:
            return self._reference(given)(*map(wide, given.tensors.values()))

        what_if = mistakes.build_what_if(
            self.spec.reference,
            lambda given: kept.get((self.spec, "truth"), given, lambda: truth(given)),
            arguments,
            got=outcome.results,
            truth=expected.truth,
            mismatch=lambda other, got: self._mismatch(other, got, expected),
            number=number,
            blocks=blocks_of(outcome.launches),
        )
        count = len(outcome.results)
        names = [self.spec.name_of(other, count) for other in range(count)]
        own = loader.load_mistakes(self.spec.chapter, self.spec.function)
        return mistakes.candidates(what_if, names, expected.truth, own)

    def _causes(
        self, call: GuardedCall, outcome: Outcome, number: int, expected: Expected
    ) -> Iterator[str]:
        """Sentences about what makes the result right when it is changed."""
        if outcome.config:
            yield f"with the autotuner's {outcome.config}"
        if not outcome.watch:
            return

        def right_if(**how: Any) -> bool:
            call.restore()
            # A run that tunes no more leaves out what was wrong in this one.
            call.forget_tuning()
            try:
                again = call.run(**how)
            except Wrong:
                return False
            return self._mismatch(number, again.results[number], expected) is None

        sites = outcome.watch.loads_without_other
        watch = outcome.watch
        same = {"order": watch.order, "seed": watch.seed, "poison": watch.poison}
        if outcome.configs > 1 and right_if(rehearse=False, **same):
            yield (
                "cause: right where the kernel runs once, wrong where the autotuner has run it "
                "before: it times each config on the tensors themselves, and what the kernel "
                "changes in them must be put back"
            )
        elif sites and watch.poison and right_if(order="shuffled", poison=False):
            lines = ", ".join(f"{Path(file).name}:{line}" for file, line in sites)
            yield (
                f"cause: masked lanes of the load at {lines} reach the result, and without other= "
                "they hold anything: say other="
            )
        # Without atomics, nothing that the interpreter runs depends on the order.
        elif watch.has_atomics and right_if(order="ascending", poison=self.spec.is_production):
            yield (
                "cause: right when the programs run one after the other in order, wrong in another "
                "order: a GPU runs them in any order and at once"
            )

    def _check_forms(self, results: Tensors, expected: Expected) -> None:
        path = display_path(self.spec.path)
        if len(results) != len(expected.own):
            raise Wrong(
                f"{path}: {self.spec.function} returned {len(results)} tensors, "
                f"not {len(expected.own)}"
            )
        for number, got in enumerate(results):
            name, right = self.spec.name_of(number, len(results)), expected.own[number]
            for aspect, found, wanted in (
                ("shape", tuple(got.shape), tuple(right.shape)),
                ("dtype", got.dtype, right.dtype),
                ("device", got.device, right.device),
            ):
                if found != wanted:
                    raise Wrong(f"{path}: {name} has {aspect} {found}, not {wanted}")
            if not self.spec.in_place and not got.is_contiguous():
                raise Wrong(
                    f"{path}: {name} is not contiguous: its strides are {got.stride()} for shape "
                    f"{tuple(got.shape)}"
                )


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a contiguous tensor, for a comparison that NaN does not disturb."""
    return tensor.reshape(-1).view(torch.uint8)
