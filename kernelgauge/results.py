"""Grade the results of a subject: what they should be, how they differ, and why that may be."""

from __future__ import annotations

import contextlib
import inspect
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from kernelgauge.core import paths, timeouts
from kernelgauge.core.arguments import Arguments
from kernelgauge.core.dtypes import double, rounds, wide
from kernelgauge.core.launch import blocks_of
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Verdict, Wrong
from kernelgauge.diagnosis import influence, mistakes, repair, report, roundings
from kernelgauge.diagnosis.edits import kernels_of
from kernelgauge.diagnosis.observations import (
    MAX_DEFERRED_ELEMENTS,
    QUESTIONS,
    Observation,
    Right,
    Unexplained,
    diagnose,
)
from kernelgauge.diagnosis.source import Source
from kernelgauge.diagnosis.what_if import IMPOSSIBLE
from kernelgauge.diagnosis.wrong_result import Mistake, WrongResult
from kernelgauge.memory.call_sites import CallSite
from kernelgauge.memory.nonfinite import Origin, Origins
from kernelgauge.memory.watch import Programs, Store
from kernelgauge.numerics.compare import Mismatch, Rule
from kernelgauge.numerics.perturbation import rounded_runs, term_size
from kernelgauge.subject import state
from kernelgauge.subject.gradients import Differentiable
from kernelgauge.subject.guarded_call import GuardedCall, Outcome
from kernelgauge.subject.late_rank import Lateness, has_meetings, names_by_rank
from kernelgauge.words.fault import SHOWN, Call, Cause, Fault, Note, note

if TYPE_CHECKING:
    from kernelgauge.kernel import Kernel

Tensors = tuple[torch.Tensor, ...]
Found = TypeVar("Found")

# Calls that show what an element depends on end after so many seconds, whatever they do.
MAX_SECONDS_TO_DEPEND = 10.0
# What would stop each of those calls for a debugger.
STOPS = re.compile(r"\b(breakpoint|set_trace)\(")

# In which programs run again, and the seeds: any two the other way round, which a sum of all in the
# reverse order may hide, and in any order.
OTHER_ORDERS = (("reversed", 0), ("shuffled", 1), ("shuffled", 2))


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

    exact: instead of the rules', for cases whose result must be the truth itself, rounded once
    mismatch: where a result that was compared is wrong
    """

    def __init__(
        self,
        kernel: Kernel,
        exact: bool | tuple[str, ...] | None = None,
    ):
        self.kernel = kernel
        self.exact = kernel.rules.exact if exact is None else exact
        self.mismatch: Mismatch | None = None

    def expected(self, arguments: Arguments) -> Expected:
        """Evaluate the reference, in float64 and in the inputs' own dtype."""
        key = self.kernel.name, self.kernel.rules, self.exact
        return self.kernel.run.memory.get(key, arguments, lambda: self._expected(arguments))

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
        """Raises Wrong unless the results of a call are right.

        Its cause is looked for at once, unless the run defers that until all cases are through.
        """
        self._check_forms(outcome.results, expected, call.original)
        for number, got in enumerate(outcome.results):
            if mismatch := self._mismatch(number, got, expected):
                self.mismatch = mismatch
                observation = self._observation(call, outcome, number, expected)
                if not self.kernel.run.defers or observation.elements > MAX_DEFERRED_ELEMENTS:
                    raise Wrong(diagnose([observation])[0])
                raise Wrong(observation.told(observation.fault.cause), observation)
        shapes = tuple(it.shape for it in outcome.results)
        inputs = call.original.tensors.values()
        small = sum(it.numel() for it in (*inputs, *outcome.results)) <= repair.MAX_ELEMENTS
        right = self.kernel.run.right
        kept = small and sum(it.case is not None for it in right) < repair.MAX_RIGHT
        case = self._case(call, outcome, expected, {}) if kept else None
        right.append(Right(_programs(outcome), shapes, case))

    def mismatch_of(
        self, outcome: Outcome, expected: Expected, *, partly: bool = False
    ) -> Mismatch | None:
        """Return how the first wrong result differs, None if all are right.

        Raises Wrong where a result has another form. Nothing is diagnosed.

        partly: only the elements that kernels stored count
        """
        self._check_forms(outcome.results, expected)
        results = outcome.results
        if partly:
            pairs = zip(results, expected.truth, strict=True)
            results = tuple(_stored(outcome, *pair) for pair in pairs)
        found = (self._mismatch(*pair, expected) for pair in enumerate(results))
        return next(filter(None, found), None)

    def _observation(
        self, call: GuardedCall, outcome: Outcome, number: int, expected: Expected
    ) -> Observation:
        """Return what there is to know of a call whose result of this number is wrong."""
        watch, inputs, source = outcome.watch, call.original.tensors, self._source()
        wrong, mismatches = {}, {}
        for other, got in enumerate(outcome.results):
            if other < number or not (mismatch := self._mismatch(other, got, expected)):
                continue
            mismatches[other] = mismatch
            wrong[other] = WrongResult(
                got,
                expected.truth[other],
                mismatch,
                inputs,
                anything=not watch or bool(watch.loads_without_other),
                source=source,
                rounded=watch.rounded if watch else None,
                origin=self._origin(call, outcome, other, expected) if other == number else None,
            )
        store = watch.store_of(outcome.results[number], mismatches[number].worst) if watch else None
        again = self._again(outcome, store)
        lost = watch.lost_beside(outcome.results) if watch else None
        # It is kept until the file is through: what was watched takes far more memory than tensors.
        blocks = blocks_of(outcome.launches)
        return Observation(
            report.facts(mismatches[number], store, wrong[number].origin, lost).but(
                call=self.kernel.called(call.original),
                config=outcome.config,
                cause=self._shown_cause(call, outcome, number, expected),
            ),
            number,
            wrong,
            partial(self._mistakes, call.original, outcome.results, blocks, expected),
            call.original.values,
            _programs(outcome),
            partial(self._option_at_fault, call, number),
            partial(self._depends, call, mismatches[number], number, again),
            partial(self._rounds, call, wrong[number], number, again),
            self._case(call, outcome, expected, again),
        )

    def _case(
        self, call: GuardedCall, outcome: Outcome, expected: Expected, part: Mapping[str, Any]
    ) -> repair.Case | None:
        """Return this call, to be made again with edits of the subject's source.

        part: how to run as much of it as one element needs
        """
        watch = outcome.watch
        if watch is None or watch.has_partitions:
            return None
        whole = {"order": watch.order, "seed": watch.seed, "poison": watch.poison}
        kernels = dict.fromkeys(launch.kernel.__name__ for launch in outcome.launches)
        return self._case_of(call, expected, kernels, whole, part)

    def unexplained(
        self, call: GuardedCall, fault: Fault, expected: Expected, how: Mapping[str, Any]
    ) -> Unexplained | None:
        """Return what makes a call again that ended with this fault, None if its cause is told.

        On a GPU an edit may leave nothing to go on with.

        how: to run the call
        """
        if not call.interpreted or fault.remedy is None or fault.remedy.id not in QUESTIONS:
            return None
        text = self.kernel.path.read_text(encoding="utf-8")
        case = self._case_of(call, expected, kernels_of(text), how, {})
        return Unexplained(fault, case) if case else None

    def _case_of(
        self,
        call: GuardedCall,
        expected: Expected,
        kernels: Iterable[str],
        whole: Mapping[str, Any],
        part: Mapping[str, Any],
    ) -> repair.Case | None:
        elements = sum(it.numel() for it in expected.truth)
        if not self.kernel.run.defers or elements > MAX_DEFERRED_ELEMENTS:
            return None
        if not self._may_call(whole):
            return None

        def is_right(file: Path, *, how: Mapping[str, Any], partly: bool) -> bool:
            before = call.subject, call.path
            call.explains = False
            try:
                subject = getattr(paths.load(file), self.kernel.name)
                call.subject, call.path = self.kernel.graded(subject), file
                call.restore()
                call.forget_tuning()
                again = call.run(rehearse=False, **how)
                return self.mismatch_of(again, expected, partly=partly) is None
            finally:
                paths.discard(file)
                call.subject, call.path = before
                call.explains = True
                call.restore()

        return repair.Case(
            self.kernel.path,
            [*kernels, self.kernel.name],
            elements,
            partial(is_right, how=part or whole, partly="programs" in part),
            partial(is_right, how=whole, partly=False),
        )

    def _again(self, outcome: Outcome, store: Store | None) -> Mapping[str, Any]:
        """Return how to run a call again, as far as one element needs."""
        watch = outcome.watch
        if watch is None:
            return {}
        same = {"order": watch.order, "seed": watch.seed, "poison": watch.poison}
        # Without atomics, nothing that the other programs of one launch do reaches an element.
        if self.kernel.strict and store and len(outcome.launches) == 1 and not watch.has_atomics:
            number = outcome.launches[0].number(store.program)
            same["programs"] = lambda count: [number]
        return same

    def _depends(
        self, call: GuardedCall, mismatch: Mismatch, number: int, again: Mapping[str, Any]
    ) -> Note | None:
        """Return on which parts of the inputs the worst element wrongly depends, or does not.

        again: how to run the call
        """
        given, index = call.original, mismatch.worst
        if given.lists or not self._may_call(again):
            return None
        tensors = {
            name: x
            for name, x in given.tensors.items()
            if rounds(x.dtype) and x.numel() and not influence.is_sorted(x)
        }
        if any(name not in call.arenas for name in tensors):
            return None
        numbers = {name: x for name, x in given.values.items() if type(x) is float}

        def reference(values: Mapping[str, Any]) -> Tensors:
            changed = given.replaced(values)
            return self._reference(changed)(*map(wide, changed.tensors.values()))

        def subject(values: Mapping[str, Any]) -> complex:
            call.restore()
            for name, tensor in values.items():
                if name in call.arenas:
                    call.arenas[name].fill(tensor)
            before = call.arguments
            call.arguments = before.replaced({it: values[it] for it in numbers if it in values})
            try:
                results = call.run(rehearse=False, **again).results
            finally:
                call.arguments = before
            return double(results[number])[index].item()

        element = influence.Element(
            mismatch.name,
            number,
            index,
            mismatch.dtype,
            float(mismatch.allowed[index]),
            mismatch.got,
            tensors,
            numbers,
            reference,
            subject,
        )
        return self._asked(call, lambda: influence.depends(element))

    def _rounds(
        self,
        call: GuardedCall,
        wrong: WrongResult,
        number: int,
        again: Mapping[str, Any],
        only: CallSite | None,
    ) -> tuple[CallSite, Note] | None:
        """Return the line whose roundings make the worst element wrong, and what is said of it.

        again: how to run the call
        only: the one line to look at; None for all
        """
        index = wrong.worst
        if not rounds(wrong.dtype) or wrong.dtype.is_complex or not self._may_call(again):
            return None
        if wrong.exact or wrong.drift is not None:
            # By how much one element may be off is not what makes it wrong.
            return None
        if wrong.rounded is not None and not wrong.rounded & roundings.FORMATS:
            return None

        def element() -> float:
            call.restore()
            return double(call.run(rehearse=False, **again).results[number])[index].item()

        got, truth, allowed = (
            float(it[index].real) for it in (wrong.got, wrong.truth, wrong.allowed)
        )
        found = roundings.Rounded(got, truth, allowed, element)
        return self._asked(call, lambda: roundings.too_coarse(found, only))

    def _may_call(self, again: Mapping[str, Any]) -> bool:
        """Return whether the subject may be called again to learn more of a wrong element."""
        if not again or not self.kernel.run.closely or settings.sealed or settings.debugged:
            return False
        return not STOPS.search(self.kernel.path.read_text(encoding="utf-8"))

    def _asked(self, call: GuardedCall, ask: Callable[[], Found | None]) -> Found | None:
        """Return what calls of the subject show, within a time; None if one of them fails."""
        limited = timeouts.seconds_left() < math.inf or not self.kernel.run.defers
        seconds = 0.0 if limited else MAX_SECONDS_TO_DEPEND
        try:
            with timeouts.time_limit(seconds), contextlib.redirect_stdout(io.StringIO()):
                return ask()
        except Wrong:
            return None
        finally:
            call.restore()

    def _origin(
        self, call: GuardedCall, outcome: Outcome, number: int, expected: Expected
    ) -> Origin | None:
        """Run the program again that stored NaN or infinity instead of a number, and see why."""
        result = outcome.results[number]
        # In float64, since torch does not ask this of 8-bit floats.
        got, truth = double(result), double(expected.truth[number].to(result))
        hit = got.isnan() & ~truth.isnan()
        if infinite := not hit.any():
            hit = got.isinf() & truth.isfinite()
        if not outcome.watch or not hit.any():
            return None
        index = tuple(hit.nonzero()[0].tolist())
        store = outcome.watch.store_of(result, index)
        if store is None:
            return None
        watch = outcome.watch

        def origin_in(program: tuple[int, int, int] | None) -> Origin:
            call.restore()
            with Origins(program, infinite) as origins, contextlib.suppress(Wrong):
                again = call.run(order=watch.order, seed=watch.seed, poison=watch.poison)
                if program is not None:
                    address = again.results[number][index].data_ptr()
                    return origins.at(address, result.element_size())
            return origins.found

        origin = origin_in(store.program)
        # NaN that an earlier kernel stored was made by another program, in another element.
        return origin_in(None) if origin.handed_on else origin

    def _option_at_fault(
        self, call: GuardedCall, number: int, others: Iterable[Mapping[str, object]]
    ) -> Cause | None:
        """Name the option without which the same call is right, if one was given.

        others: the values of the arguments of other cases that fail
        """
        given, others = call.original, list(others)
        for name, parameter in inspect.signature(self.kernel.reference).parameters.items():
            value, default = given.values.get(name, parameter.default), parameter.default
            if default is parameter.empty or isinstance(value, torch.Tensor) or value == default:
                continue
            if any(values.get(name, default) == default for values in others):
                # What fails without the option, too, does not depend on it.
                continue
            other = GuardedCall(
                call.subject,
                call.path,
                given.replaced({name: default}),
                in_place=call.in_place,
                readable=call.readable,
                interpreted=call.interpreted,
                strict=call.strict,
                named=call.named,
            )
            try:
                expected = self.expected(other.original)
            except IMPOSSIBLE:
                # The reference refuses the other inputs without the option.
                continue
            other.restore()
            try:
                results = other.run(order="shuffled").results
            except Verdict:
                continue
            if self._mismatch(number, results[number], expected) is None:
                shown = {"default": default, "value": value}
                if any(isinstance(it, torch.dtype) for it in shown.values()):
                    shown = {key: str(it) for key, it in shown.items()}
                return Cause(note("option-at-fault", name=name, **shown), SHOWN)
        return None

    def _source(self) -> Source:
        return Source.of(self.kernel.path.read_text(encoding="utf-8"))

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
        self._check_forms(results, expected, arguments)
        for number, got in enumerate(results):
            if mismatch := self._mismatch(number, got, expected):
                raise Wrong(mismatch.fault().but(call=self.kernel.called(arguments)))

    def check_repeatable(self, call: GuardedCall, outcome: Outcome, *, poison: bool) -> None:
        """Raises Wrong unless other runs on the same input give the same bits.

        Without atomics, nothing that the interpreter runs depends on the order, and one will do.
        """
        orders = OTHER_ORDERS if outcome.watch and outcome.watch.has_atomics else OTHER_ORDERS[:1]
        for order, seed in orders:
            call.restore()
            again = call.run(order=order, seed=seed, poison=poison)
            pairs = zip(outcome.results, again.results, strict=True)
            for number, (first, second) in enumerate(pairs):
                if not torch.equal(_bytes_of(first), _bytes_of(second)):
                    name = self.kernel.name_of(number, len(outcome.results))
                    said = note("differs-between-runs", name=name)
                    remedy = note("sum-in-a-fixed-order")
                    raise Wrong(self._fault("differs-between-runs", said, name, remedy))

    def check_between(self, call: GuardedCall, expected: Expected, *, poison: bool) -> None:
        """Raises Wrong unless gradients stay right with another forward pass before the backward.

        Only for calls that were right without it.
        """
        subject = call.subject
        assert isinstance(subject, Differentiable)
        call.restore()
        subject.between = True
        try:
            outcome = call.run(order="shuffled", poison=poison)
        finally:
            subject.between = False
        if mismatch := self.mismatch_of(outcome, expected):
            said = note("wrong-with-a-call-between")
            raise self._left_over(mismatch.fault(), call, said, note("keep-on-ctx"))

    def check_other_contents(
        self, arguments: Arguments, expected: Expected, *, poison: bool, programs: Programs = "all"
    ) -> None:
        """Raises Wrong where what the subject keeps from call to call is wrong for other contents.

        Only for calls that are right. A module that keeps nothing is not run again.

        programs: those that run in both calls, and whose results count
        """
        if not state.keeps(self.kernel.path):
            return
        paths.forget(self.kernel.path)
        other, call = self.kernel.guarded(arguments), self.kernel.guarded(arguments)
        other.fill_with_decoys()
        call.fill_with_decoys()
        try:
            other.run(poison=poison, programs=programs)
        except (Verdict, *IMPOSSIBLE):
            # The spec may rule such contents out.
            return
        try:
            # In other memory, and in the same.
            call.run(poison=poison, programs=programs)
            call.restore()
            outcome = call.run(poison=poison, programs=programs)
            mismatch = self.mismatch_of(outcome, expected, partly=programs != "all")
        except Wrong as wrong:
            fault: Fault | None = wrong.fault
        else:
            fault = mismatch.fault() if mismatch else None
        if fault:
            said, remedy = note("wrong-after-other-contents"), note("keep-nothing-between-calls")
            raise self._left_over(fault, call, said, remedy)

    def check_other_sizes(self, arguments: Arguments, expected: Expected, *, poison: bool) -> None:
        """Raises Wrong where what the subject keeps from call to call is wrong for other sizes.

        A module that keeps nothing is not run again, and neither is one that is wrong for half of
        all sizes, which the spec may rule out.
        """
        if not state.keeps(self.kernel.path):
            return
        paths.forget(self.kernel.path)
        # They live side by side, so that what is kept by an address is the same in every run.
        call, other = (self.kernel.guarded(it) for it in (arguments, arguments.map(_half)))
        try:
            small = self.expected(other.original)
            self._compare_again(other, small, poison)
        except (Verdict, *IMPOSSIBLE):
            return
        for now, before, wanted in ((call, other, expected), (other, call, small)):
            try:
                self._compare_again(now, wanted, poison)
            except Wrong as wrong:
                said = note("wrong-after-other-sizes", arguments=str(before.original))
                remedy = note("keep-nothing-between-calls")
                raise self._left_over(wrong.fault, now, said, remedy) from None

    def _compare_again(self, call: GuardedCall, expected: Expected, poison: bool) -> None:
        call.restore()
        if mismatch := self.mismatch_of(call.run(poison=poison), expected):
            raise Wrong(mismatch.fault())

    def left_over(
        self, fault: Fault, arguments: Arguments, expected: Expected, after: str, *, poison: bool
    ) -> Wrong | None:
        """Return that an earlier call is why this one is wrong, None if it is wrong by itself.

        after: the note that says which call that was
        """
        if not state.keeps(self.kernel.path):
            return None
        paths.forget(self.kernel.path)
        call = self.kernel.guarded(arguments)
        try:
            if self.mismatch_of(call.run(poison=poison), expected):
                return None
        except Verdict:
            return None
        return self._left_over(fault, call, note(after), note("keep-nothing-between-calls"))

    def _left_over(self, fault: Fault, call: GuardedCall, said: Note, remedy: Note) -> Wrong:
        """Return that what another call left makes a call wrong that is right alone."""
        called = self.kernel.called(call.original)
        return Wrong(fault.but(said=(said, *fault.said), call=called, remedy=remedy))

    def _fault(self, kind: str, said: Note, tensor: str = "", remedy: Note | None = None) -> Fault:
        call = Call(str(self.kernel.path), self.kernel.name)
        return Fault(kind, (said,), call=call, tensor=tensor, remedy=remedy)

    def check_late(self, call: GuardedCall, expected: Expected, *, poison: bool) -> None:
        """Raises Wrong unless the results stay right whichever rank is late."""
        count = len(names_by_rank(call.original.tensors)) if self.kernel.rules.ranks else 0
        shown = has_meetings(call.subject) if settings.interpreted else len(call.devices) > 1
        if count < 2 or not shown:
            return

        def wrong(**late: Any) -> Mismatch | None:
            call.restore()
            results = call.run(poison=poison, late=Lateness(**late)).results
            found = (self._mismatch(number, got, expected) for number, got in enumerate(results))
            return next(filter(None, found), None)

        for rank in range(count):
            if mismatch := wrong(rank=rank):
                if wrong(rank=rank, arrives_late=False, overwritten=False):
                    where = "meet-between-launches"
                elif wrong(rank=rank, overwritten=False):
                    where = "meet-before-the-first"
                else:
                    where = "meet-before-return"
                fault = mismatch.fault()
                late_ = note("wrong-when-late", rank=rank)
                raise Wrong(
                    Fault(
                        "late-rank",
                        (late_, *fault.said),
                        call=self.kernel.called(call.original),
                        tensor=fault.tensor,
                        numbers={**fault.numbers, "rank": rank},
                        remedy=note(where),
                    )
                )
        call.restore()

    def check_alike(self, results: Tensors) -> None:
        """Raises Wrong unless the results of all ranks have the same bits."""
        names = [self.kernel.name_of(number, len(results)) for number in range(len(results))]
        if isinstance(self.kernel.rules.alike, tuple):
            pairs = zip(names, results, strict=True)
            results = tuple(
                x for name, x in pairs if name.partition("[")[0] in self.kernel.rules.alike
            )
        for rank, result in enumerate(results):
            if not torch.equal(_bytes_of(result.to(results[0].device)), _bytes_of(results[0])):
                said, remedy = note("ranks-differ", rank=rank), note("add-in-one-order")
                raise Wrong(self._fault("differs-between-ranks", said, remedy=remedy))

    def _reference(self, arguments: Arguments) -> Callable[..., Tensors]:
        """The reference, to be called with tensors alone, which it leaves as they are."""
        evaluate = self.kernel.on_tensors(self.kernel.reference, arguments)

        def reference(*tensors: torch.Tensor) -> Tensors:
            in_place = self.kernel.rules.in_place
            return evaluate(*(tensor.clone() if in_place else tensor for tensor in tensors))

        return reference

    def _yardsticks(
        self,
        reference: Callable[..., Tensors],
        tensors: Sequence[torch.Tensor],
        own: Tensors,
        runs: int = 8,
    ) -> list[list[torch.Tensor]]:
        if not self.kernel.rules.rounded:
            return [[result] for result in own]
        dtype = next(tensor.dtype for tensor in tensors if tensor.is_floating_point())
        more = rounded_runs(reference, tensors, dtype, runs=runs)
        return [[result, *samples] for result, samples in zip(own, more, strict=True)]

    def _mismatch(self, number: int, got: torch.Tensor, expected: Expected) -> Mismatch | None:
        # Terms and yardsticks only ever allow more, and most right results do without.
        found = None
        for yardsticks, terms in (("truth", False), ("own", False), ("own", True), ("all", True)):
            if yardsticks == "all" and not self.kernel.rules.rounded:
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
        name = self.kernel.name_of(number, len(expected.truth))
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
            roundings=2 if self.kernel.rules.rounded_on_the_way else 1,
        )
        return rule

    def _input_precision(self, dtype: torch.dtype) -> str | None:
        """What a result of this dtype may lose in the tensor cores, as `compare` takes it."""
        precision = self.kernel.rules.input_precision
        if precision == "fp8":
            # In the interpreter such sums are exact.
            return None if settings.interpreted else precision
        return precision if dtype == torch.float32 else None

    def _mistakes(
        self,
        arguments: Arguments,
        results: Tensors,
        blocks: Sequence[int],
        expected: Expected,
        number: int,
    ) -> Iterator[Mistake]:
        """What may have been done wrong, for the diagnosis to try.

        blocks: the block sizes of the kernels that were launched
        number: of the result that is wrong
        """

        def truth(given: Arguments) -> Tensors:
            return self._reference(given)(*map(wide, given.tensors.values()))

        what_if = mistakes.build_what_if(
            self.kernel.reference,
            lambda given: self.kernel.run.memory.get(
                (self.kernel.name, "truth"), given, lambda: truth(given)
            ),
            arguments,
            got=results,
            truth=expected.truth,
            mismatch=lambda other, got: self._mismatch(other, got, expected),
            number=number,
            blocks=blocks,
        )
        count = len(results)
        names = [self.kernel.name_of(other, count) for other in range(count)]
        return mistakes.candidates(what_if, names, expected.truth, self.kernel.mistakes)

    def _shown_cause(
        self, call: GuardedCall, outcome: Outcome, number: int, expected: Expected
    ) -> Cause | None:
        """Return what makes the result right when it is changed."""
        if not outcome.watch:
            return None

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
            return Cause(note("tuned-on-the-tensors"), SHOWN)
        if outcome.zeroed and right_if(restores=True, **same):
            return Cause(note("zeroed-before-it-is-read", names=[*outcome.zeroed]), SHOWN)
        if sites and watch.poison and right_if(order="shuffled", poison=False):
            lines = [f"{Path(file).name}:{line}" for file, line in sites]
            return Cause(note("masked-lanes-reach-the-result", lines=lines), SHOWN)
        # Without atomics, nothing that the interpreter runs depends on the order.
        if watch.has_atomics and right_if(order="ascending", poison=self.kernel.poison):
            return Cause(note("order-matters"), SHOWN)
        if call.hides and right_if(hide=False, **same):
            return Cause(note("launcher-reads-inputs"), SHOWN)
        return None

    def _check_forms(
        self, results: Tensors, expected: Expected, arguments: Arguments | None = None
    ) -> None:
        if len(results) != len(expected.own):
            said = note("wrong-count", found=len(results), wanted=len(expected.own))
            raise Wrong(self._fault("wrong-form", said))
        for number, got in enumerate(results):
            name, right = self.kernel.name_of(number, len(results)), expected.own[number]
            for aspect, found, wanted in (
                ("shape", tuple(got.shape), tuple(right.shape)),
                ("dtype", str(got.dtype), str(right.dtype)),
                ("device", str(got.device), str(right.device)),
            ):
                if found != wanted:
                    form = {"aspect": aspect, "found": found, "wanted": wanted}
                    fault = self._fault("wrong-form", note("form", name=name, **form), name)
                    why = None
                    if arguments and aspect == "shape":
                        why = _size_of_another(arguments.tensors, got, right)
                        why = why or self._option_left_out(arguments, number, tuple(got.shape))
                    raise Wrong(fault.but(said=(*fault.said, why)) if why else fault)
            if not self.kernel.any_layout and not got.is_contiguous():
                layout = {"strides": tuple(got.stride()), "shape": tuple(got.shape)}
                said = note("not-contiguous", name=name, **layout)
                given = arguments.tensors.items() if arguments else ()
                alike = (
                    n for n, it in given if (it.shape, it.stride()) == (got.shape, got.stride())
                )
                other = next(alike, None)
                remedy = note("strides-of-another", other=other) if other else None
                raise Wrong(self._fault("wrong-form", said, name, remedy))

    def _option_left_out(
        self, arguments: Arguments, number: int, shape: tuple[int, ...]
    ) -> Note | None:
        """Return the only option that, if it were 0 or 1, would give a result this shape."""
        found = []
        for name, value in arguments.values.items():
            for other in {0, 1} - {value} if type(value) is int else ():
                given = arguments.replaced({name: other})
                try:
                    results = self._reference(given)(*given.tensors.values())
                except IMPOSSIBLE:
                    continue
                if tuple(results[number].shape) == shape:
                    found.append(note("shape-of-option", name=name, other=other, given=value))
        return found[0] if len(found) == 1 else None


def _size_of_another(
    given: Mapping[str, torch.Tensor], got: torch.Tensor, right: torch.Tensor
) -> Note | None:
    """Return which of two inputs has the size that is wrong in a shape, and which the right one."""
    wrong = [
        dim
        for dim, (one, other) in enumerate(zip(got.shape, right.shape, strict=False))
        if one != other
    ]
    alike = {name: value.shape for name, value in given.items() if value.dim() == right.dim()}
    if got.dim() != right.dim() or len(wrong) != 1 or len(alike) != 2:
        return None
    (dim,) = wrong
    names = {shape[dim]: name for name, shape in alike.items()}
    found, wanted = got.shape[dim], right.shape[dim]
    if names.keys() != {found, wanted}:
        return None
    sizes = {"found": found, "wanted": wanted}
    return note("size-of-another-input", dim=dim, name=names[found], other=names[wanted], **sizes)


def _half(_: str, tensor: torch.Tensor) -> torch.Tensor:
    """Return the first half of a tensor in every dimension of more than one."""
    return tensor[tuple(slice((size + 1) // 2) for size in tensor.shape)]


def _stored(outcome: Outcome, got: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """Return a result with the truth in place of elements that no kernel stored."""
    assert outcome.watch
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[got.itemsize]
    stored, right = torch.from_numpy(outcome.watch.stored(got)), truth.to(got.dtype)
    got_bits, right_bits = got.contiguous().view(bits), right.contiguous().view(bits)
    return torch.where(stored, got_bits, right_bits).view(got.dtype)


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a contiguous tensor, for a comparison that NaN does not disturb."""
    return tensor.reshape(-1).view(torch.uint8)


def _programs(outcome: Outcome) -> int:
    """Return how many programs a call launched."""
    return sum(math.prod(launch.grid) for launch in outcome.launches)
