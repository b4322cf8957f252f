"""Look for sizes up to which a subject is right and beyond which it is not.

Each size grows first, while the others are as small as they can be. What has a limit below is wrong
then, and bisection finds the limit. A limit mostly stands in the subject's own file, as a number or
as a product of two, and so each size is then tried just above, at and just below each of them.
Which cases are tried depends on the file and on what the interpreter does for them, never on the
time that it takes.

Of a launch of many programs that need not know of each other a few run, at both ends and next to
the numbers of the file. Where none of them stores as much as it would take on average to fill the
results, the call is made once more with all programs.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernelgauge.core import work
from kernelgauge.core.arguments import Arguments
from kernelgauge.core.figure import Figure
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import NotMeasured, Wrong
from kernelgauge.memory.executor import sample
from kernelgauge.results import Expected, ResultCheck
from kernelgauge.subject.constants import AT_AN_END, Constant, constants
from kernelgauge.subject.guarded_call import GuardedCall, Outcome
from kernelgauge.words.fault import SHOWN, Cause, Fault, note

if TYPE_CHECKING:
    from kernelgauge.kernel import Kernel

# Units of work for all cases of a test, and for one of them.
BUDGET = 6_500.0
MOST_OF_A_CASE = 4_500.0
# What a call takes beside its programs, and how many elements of its inputs take a unit.
CALL = 60.0
ELEMENTS = 2_500
# Sizes below this come after larger ones.
SMALL = 32
# What a size is at first, before the numbers of the file are tried.
GROWING = tuple(8**power * 4 + 1 for power in range(1, 7))
# Of a launch of more programs a few run: at its ends, next to likely numbers, and others.
MOST_PROGRAMS, LIKELY, OTHERS = 24, 8, 3
# Units of work for a call of all programs that seems to be wrong.
MOST_OF_ALL = 60_000.0
# A GPU compiles a kernel anew for most sizes.
MAX_CASES_ON_GPU = 16

# What is told of a call until all programs ran: no program stores enough.
UNFILLED = Fault("unwritten", ())

Sizes = Mapping[str, range]
Values = dict[str, int]


def check_limits(
    kernel: Kernel,
    build: Callable[..., tuple],
    sizes: Sizes,
    setting: Callable[[Values], contextlib.AbstractContextManager],
) -> None:
    """See `Kernel.limits`."""
    search = _Search(kernel, build, sizes, setting)
    if fault := search.tried():
        raise Wrong(fault)
    if search.skipped:
        kernel.run.noted.append(Figure("sizes near numbers of the file not run", search.skipped))


class _Search:
    """The cases of one test.

    spent: units of work so far, on a GPU the number of cases
    skipped: how many cases were not run, because they or those before them are too much
    """

    def __init__(
        self,
        kernel: Kernel,
        build: Callable[..., tuple],
        sizes: Sizes,
        setting: Callable[[Values], contextlib.AbstractContextManager],
    ):
        self.kernel, self.build, self.sizes, self.setting = kernel, build, sizes, setting
        # Without a file nothing can be read: the first call says so.
        code = kernel.path.read_text(encoding="utf-8") if kernel.path.exists() else ""
        self.constants = constants(code)
        self.spent, self.skipped = 0.0, 0
        # Whether a few programs of a launch may run without the others.
        self._apart = settings.interpreted
        # Whether results that seem to be unfilled were unfilled so far.
        self._suspects = True
        self._least = {name: values[0] for name, values in sizes.items()}
        # What calls took, by size and value.
        self._took: dict[str, dict[int, float]] = {name: {} for name in sizes}

    def tried(self) -> Fault | None:
        """Return what is wrong with the first case that fails, None if none does."""
        if fault := self._fault({}):
            # What is wrong at the least sizes is no limit.
            return fault
        for took, values in zip(self._took.values(), self.sizes.values(), strict=True):
            took[values[0]] = self.spent
        share = BUDGET / 2 / len(self.sizes)
        likely = [it for it in self.constants if it.rank == AT_AN_END and it.value >= SMALL]
        # The first rungs show what larger sizes will take.
        for name, value in itertools.chain(
            self._growing(share, GROWING[:2]),
            self._cheapest_first(_candidates(likely, self.sizes, steps=(1,))),
            self._growing(share, GROWING[2:]),
            _candidates(self.constants, self.sizes),
        ):
            if value in self._took[name]:
                continue
            if self._is_spent(self._expected(name, value)):
                self.skipped += 1
            elif fault := self._tried(name, value):
                return fault
        return None

    def _tried(self, name: str, value: int) -> Fault | None:
        """Return what is wrong with a case, told as a limit, and take notice of what it takes."""
        before = self.spent
        try:
            fault = self._fault({name: value})
        except work.TooMuch:
            fault = None
            self.skipped += 1
        if fault and (told := self._told(name, value, fault)):
            return told
        self._took[name][value] = self.spent - before
        return None

    def _growing(self, share: float, rungs: Sequence[int]) -> Iterator[tuple[str, int]]:
        """Yield each size larger and larger, up to what takes its share of the work.

        Whatever ends below is found by these few, wherever its limit comes from.
        """
        last: dict[str, int] = {}
        for rung in rungs:
            for name, values in self.sizes.items():
                if name in last or self._is_spent():
                    continue
                at = min(max(-(-(rung - values.start) // values.step), 0), len(values) - 1)
                if values[at] in self._took[name]:
                    continue
                if self._expected(name, values[at]) >= share:
                    low = values.index(max(self._took[name]))
                    while at - low > 1:
                        middle = (low + at) // 2
                        if self._expected(name, values[middle]) < share:
                            low = middle
                        else:
                            at = middle
                    at = last[name] = low
                if values[at] not in self._took[name]:
                    yield name, values[at]

    def _cheapest_first(self, candidates: list[tuple[str, int]]) -> Iterator[tuple[str, int]]:
        while candidates:
            cheapest = min(candidates, key=lambda it: self._expected(*it))
            candidates.remove(cheapest)
            yield cheapest

    def _is_spent(self, more: float = 0.0) -> bool:
        return self.spent + more >= (BUDGET if settings.interpreted else MAX_CASES_ON_GPU)

    def _expected(self, name: str, value: int) -> float:
        """Return what a case will take, by those of smaller values."""
        if not settings.interpreted:
            return 0.0
        took, least = self._took[name], self._least[name]
        smaller = max(it for it in took if it <= value)
        if smaller == least:
            return took[least]
        return took[smaller] + (took[smaller] - took[least]) / (smaller - least) * (value - smaller)

    def _fault(self, chosen: Values) -> Fault | None:
        """Return what is wrong with one case, if anything is. Raises TooMuch."""
        with self._case(chosen) as arguments:
            most = MOST_OF_A_CASE if settings.interpreted else float("inf")
            with work.at_most(most) as meter:
                try:
                    meter.spend(CALL + _elements(arguments) / ELEMENTS)
                    return self._wrong(arguments)
                finally:
                    self.spent += meter.spent if settings.interpreted else 1

    def _wrong(self, arguments: Arguments) -> Fault | None:
        """Return what is wrong with a call, without a diagnosis, or UNFILLED. Raises TooMuch."""
        call, results = self.kernel.guarded(arguments), ResultCheck(self.kernel)
        how: dict[str, Any] = {"poison": self.kernel.poison, "rehearse": False}
        try:
            if self._apart and (outcome := self._of_some(call, how)):
                count = sum(math.prod(launch.grid) for launch in outcome.launches)
                # The reference, in two dtypes, comes to more than what few programs do.
                work.spend(2 * sum(it.numel() for it in outcome.results) / ELEMENTS)
                expected = results.expected(call.original)
                if mismatch := results.mismatch_of(outcome, expected, partly=True):
                    return mismatch.fault()
                if not self._lacks(call, outcome, expected, count):
                    return None
                if count > MOST_PROGRAMS:
                    return UNFILLED if self._suspects else None
                call.restore()
            outcome = call.run(order="shuffled", **how)
            mismatch = results.mismatch_of(outcome, results.expected(call.original))
        except Wrong as wrong:
            return wrong.fault
        return mismatch.fault() if mismatch else None

    def _of_some(self, call: GuardedCall, how: dict[str, Any]) -> Outcome | None:
        """Run a few programs of a call, if they need no others. Raises Wrong and TooMuch."""
        try:
            outcome = call.run(programs=self._some, **how)
        except work.TooMuch:
            raise
        except NotMeasured:
            # The launcher reads what was not computed.
            self._apart = False
        else:
            assert outcome.watch
            self._apart = len(outcome.launches) <= 1 and not outcome.watch.has_atomics
        if self._apart:
            return outcome
        call.restore()
        return None

    def _lacks(self, call: GuardedCall, outcome: Outcome, expected: Expected, count: int) -> bool:
        """Whether no program stored so much that so many like it fill each result.

        Of what is changed in place, the elements that change have to be stored.
        """
        watch, needed = outcome.watch, [it.numel() for it in outcome.results]
        assert watch
        if self.kernel.rules.in_place:
            before = (call.original.tensors[name] for name in self.kernel.rules.in_place)
            needed = [int((x != y).sum()) for x, y in zip(before, expected.own, strict=True)]
        pairs = zip(outcome.results, needed, strict=True)
        return any(watch.most_stored(result) * count < least for result, least in pairs)

    def _some(self, count: int) -> Iterable[int]:
        """Return the programs of a launch that run in place of all."""
        if count <= MOST_PROGRAMS:
            return range(count)
        near = [it.value for it in self.constants if it.value < count][:LIKELY]
        others = sorted(sample(count))[:OTHERS]
        return sorted({0, 1, count - 2, count - 1, *near, *others})

    @contextlib.contextmanager
    def _case(self, chosen: Values) -> Iterator[Arguments]:
        """Yield the arguments of a call with these sizes, and the others at their least."""
        values = self._least | chosen
        *inputs, last = self.build(**values)
        options = last if isinstance(last, dict) else {}
        inputs = inputs if isinstance(last, dict) else [*inputs, last]
        with self.setting(values):
            yield self.kernel.arguments(tuple(inputs), options)

    def _told(self, name: str, value: int, fault: Fault) -> Fault | None:
        """Return the fault with the sizes between which right turns into wrong, None if none is."""
        values = self.sizes[name]
        low, high = (
            values.index(max(it for it in self._took[name] if it < value)),
            values.index(value),
        )
        guess = high - 1
        while high - low > 1:
            at = guess if low < guess < high else (low + high) // 2
            guess = low
            try:
                found = self._fault({name: values[at]})
            except work.TooMuch:
                found = None
            if found:
                high, fault = at, found
            else:
                low = at
        with self._case({name: values[high]}) as arguments:
            with contextlib.suppress(work.TooMuch), work.at_most(MOST_OF_ALL):
                try:
                    self.kernel.check(*arguments.positional, **arguments.keyword)
                except Wrong as wrong:
                    fault = wrong.fault
            call = self.kernel.called(arguments)
        if fault is UNFILLED:
            self._suspects = False
            return None
        cause = _cause(self.constants, name, values[low], values[high])
        known = fault.call is not None or fault.place is not None
        return fault.but(
            call=fault.call if known else call,
            cause=Cause(cause, SHOWN),
            remedy=fault.remedy or note("no-limit"),
        )


def _elements(arguments: Arguments) -> int:
    return sum(tensor.numel() for tensor in arguments.tensors.values())


def _candidates(
    known: Iterable[Constant], sizes: Sizes, steps: Sequence[int] = (1, 0, -1)
) -> list[tuple[str, int]]:
    """Return sizes to try, each once: all just above a number first, then at, then below."""
    found: list[tuple[str, int]] = []
    # Most small sizes are those of other cases, too.
    known = sorted(known, key=lambda it: (it.rank + (it.value < SMALL) * (it.rank + 1), it.value))
    for step in steps:
        for constant in known:
            for name, values in sizes.items():
                # The largest of the values that is no larger than the number.
                at = (constant.value - values.start) // values.step
                if at >= 0 and 0 < at + step < len(values):
                    found.append((name, values[at + step]))
    return list(dict.fromkeys(found))


def _cause(known: Iterable[Constant], name: str, right: int, wrong: int) -> Any:
    """Return what is said of a limit: the number of the file that it is, if it is one."""
    shown = {"size": name, "right": right, "wrong": wrong}
    for value in (right, wrong):
        for constant in known:
            if constant.value == value:
                return note(
                    "limit-in-the-file",
                    **shown,
                    value=value,
                    factors=list(constant.factors),
                    texts=list(constant.texts),
                    lines=list(constant.lines),
                )
    return note("limit-of-a-size", **shown)
