"""Look for sizes up to which a subject is right and beyond which it is not.

Each size grows first, while the others are as small as they can be. What has a limit below is wrong
then, and bisection finds the limit. A limit mostly stands in the subject's own file, as a number or
as a product of two, and so each size is then tried just above, at and just below each of them.
What ends at a number may be wrong only a tile beyond it, only where other sizes are larger or
beyond a number, too, or only in a dtype that the file tells from others: these cases come last, and
have budgets of their own. Which cases are tried depends on the file and on what the interpreter
does for them, never on the time that it takes.

Of a launch of many programs that need not know of each other a few run, at both ends and next to
the numbers of the file. Where none of them stores as much as it would take on average to fill the
results, the call is made once more with all programs. All run, too, on both sides of a limit before
it is told.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from kernelgauge.core import work
from kernelgauge.core.arguments import Arguments
from kernelgauge.core.dtypes import dtype_name
from kernelgauge.core.figure import Figure
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import NotMeasured, Verdict, Wrong
from kernelgauge.memory.executor import sample
from kernelgauge.memory.watch import Programs
from kernelgauge.results import Expected, ResultCheck
from kernelgauge.subject.constants import AT_AN_END, Constant, constants, told_apart
from kernelgauge.subject.guarded_call import GuardedCall, Outcome
from kernelgauge.words.fault import SHOWN, Cause, Fault, note

if TYPE_CHECKING:
    from kernelgauge.kernel import Kernel

# Units of work for all cases of a test, and for one of them. Of 136 known limits, those of 33
# mutants and one planted in each solution, half of all these budgets miss 24.
BUDGET = 6_500.0
MOST_OF_A_CASE = 4_500.0
# And for those a tile beyond a number, those in which no size is small, those in which two are
# large, and those in other dtypes of the first inputs that have some. Each dtype of the others has
# half of that.
BUDGET_BEYOND, BUDGET_TOGETHER = 1_200.0, 3_600.0
BUDGET_PAIRS, BUDGET_DTYPES = 2_000.0, 1_400.0
# How many cases a pair of sizes has, and of how many pairs each would have too little.
MOST_PAIRS, MANY_PAIRS = 2, 6
# And for the only size, where no program runs without the others.
BUDGET_LARGE = 6_500.0
# What a call takes beside its programs, and how many elements of its inputs take a unit.
CALL = 60.0
ELEMENTS = 2_500
# Sizes below this come after larger ones.
SMALL = 32
# What a size is at first, before the numbers of the file are tried.
GROWING = tuple(8**power * 4 + 1 for power in range(1, 7))
# Numbers from which on the programs at the ends are tried with so much more: a whole tile, or two.
LARGE, TILE = 1024, 128
# How many elements a tensor has at least that has each of the other sizes as a dimension, where no
# size is small.
TOGETHER = 64
# Of a launch of more programs a few run: at its ends, next to likely numbers, and others.
MOST_PROGRAMS, LIKELY, OTHERS = 24, 8, 3
# Units of work to find where right turns into wrong.
MOST_TO_TELL = 20_000.0
# Units of work for a call of all programs that seems to be wrong.
MOST_OF_ALL = 60_000.0
# A GPU compiles a kernel anew for most sizes.
MAX_CASES_ON_GPU = 16

# What is told of a call until all programs ran: no program stores enough.
UNFILLED = Fault("unwritten", ())

Sizes = Mapping[str, range]
Values = dict[str, int]
# Of all inputs, or of those with these names, with blanks between.
Dtypes = Sequence[torch.dtype] | Mapping[str, Sequence[torch.dtype]]


class Other(NamedTuple):
    """Other inputs than those that `build` returns.

    names: those that have another dtype, none for all that have the first one
    first: what they have as they are built
    dtype: what they have here
    """

    names: list[str]
    first: torch.dtype
    dtype: torch.dtype

    def __call__(self, arguments: Arguments) -> Arguments:
        """Return the same arguments with this dtype, and this one where they name the other."""
        named = {name: self.dtype for name in self.names if arguments.values[name] is self.first}
        return arguments.map(self._cast).replaced(named)

    def _cast(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        has_it = name in self.names if self.names else tensor.dtype is self.first
        return tensor.to(self.dtype) if has_it else tensor


def check_limits(
    kernel: Kernel,
    build: Callable[..., tuple],
    sizes: Sizes,
    setting: Callable[[Values], contextlib.AbstractContextManager],
    dtypes: Dtypes = (),
) -> None:
    """See `Kernel.limits`."""
    search = _Search(kernel, build, sizes, setting, dtypes)
    if fault := search.tried():
        raise Wrong(fault)
    if search.skipped:
        kernel.run.noted.append(Figure("sizes near numbers of the file not run", search.skipped))


class _Search:
    """The cases of one test.

    spent: units of work so far, on a GPU the number of cases
    allowed: how many there may be
    skipped: how many cases were not run, because they or those before them are too much
    """

    def __init__(
        self,
        kernel: Kernel,
        build: Callable[..., tuple],
        sizes: Sizes,
        setting: Callable[[Values], contextlib.AbstractContextManager],
        dtypes: Dtypes = (),
    ):
        self.kernel, self.build, self.sizes, self.setting = kernel, build, sizes, setting
        # Without a file nothing can be read: the first call says so.
        code = kernel.path.read_text(encoding="utf-8") if kernel.path.exists() else ""
        self.constants = constants(code)
        # The inputs to try beside those that are built, and those of a case.
        groups = dtypes if isinstance(dtypes, Mapping) else {"": dtypes}
        self._others = [
            Other(names.split(), each[0], dtype)
            for names, each in groups.items()
            for dtype in told_apart(code, each)[1:]
        ]
        self._other: Other | None = None
        self.spent, self.skipped = 0.0, 0
        self.allowed = BUDGET if settings.interpreted else MAX_CASES_ON_GPU
        # Sizes from which on no few programs of a launch may run without the others.
        self._joint: dict[str, int] = {}
        # Whether all programs run in any case.
        self._whole = not settings.interpreted
        # Whether only the programs at its ends run of a launch.
        self._ends = False
        # How far a case is beyond the number that it is for.
        self._step = 1
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
        likely = [it for it in self.constants if it.rank == AT_AN_END and it.value >= SMALL]
        fault = self._tried_where_grids_end() or self._tried_alone(likely)
        if fault or not settings.interpreted:
            return fault
        skipped = self.skipped
        fault = (
            self._tried_as_large_as_can_be()
            or self._tried_beyond(likely)
            or self._tried_together(likely)
        )
        self._ends = True
        fault = fault or self._tried_in_pairs(likely) or self._tried_in_dtypes(likely)
        # What these leave out may still be tried next to its number.
        self.skipped = skipped
        return fault

    def _tried_where_grids_end(self) -> Fault | None:
        """Try sizes that some kernel has no more programs for, as the launches alone show.

        A chain of kernels, where all programs have to run, seldom gets as far otherwise. Programs
        may take turns, and so what such a kernel does with more is tried.
        """
        if not self._joint or not settings.interpreted:
            return None
        before = self.spent, self.skipped
        for name in self.sizes:
            for value, tile in self._beyond_grids(name):
                self._step = tile
                if fault := self._tried(name, value, MOST_OF_ALL):
                    return fault
                # What this took is no rung of the cases that follow, which keep their budget.
                del self._took[name][value]
        self._step, (self.spent, self.skipped) = 1, before
        return None

    def _beyond_grids(self, name: str) -> list[tuple[int, int]]:
        """Return the sizes with a tile more than a kernel has programs, and how far that is."""
        values = self.sizes[name]

        @functools.cache
        def counts(at: int) -> Counter[str]:
            found: Counter[str] = Counter()
            with self._case({name: values[at]}) as arguments, contextlib.suppress(Verdict):
                call = self.kernel.guarded(arguments)
                outcome = call.run(programs="none", poison=self.kernel.poison, rehearse=False)
                for launch in outcome.launches:
                    found[launch.kernel.__name__] += math.prod(launch.grid)
            return found

        found: set[tuple[int, int]] = set()
        top = len(values) - 1
        for kernel, most in counts(top).items():
            if counts(top // 2)[kernel] < most or counts(0)[kernel] >= most:
                continue
            end = bisect.bisect_left(range(top), most, key=lambda at: counts(at)[kernel])
            before = counts(end - 1)[kernel]
            tile = end - bisect.bisect_left(range(end), before, key=lambda at: counts(at)[kernel])
            # The last with enough programs is just before the next tile.
            if end + 2 * tile - 1 <= top:
                found.add((values[end + 2 * tile - 1], tile))
        return sorted(found)

    def _tried_alone(self, likely: list[Constant]) -> Fault | None:
        """Try each size while the others are as small as they can be."""
        share = BUDGET / 2 / len(self.sizes)
        # The first rungs show what larger sizes will take.
        return self._tried_each(
            itertools.chain(
                self._growing(share, GROWING[:2], self.sizes),
                self._cheapest_first(_candidates(likely, self.sizes, steps=(1,))),
                self._growing(share, GROWING[2:], self.sizes),
                _candidates(self.constants, self.sizes),
            )
        )

    def _tried_each(
        self, cases: Iterable[tuple[str, int]], most: float = MOST_OF_A_CASE
    ) -> Fault | None:
        for name, value in cases:
            if value in self._took[name]:
                continue
            if self._is_spent(self._expected(name, value)):
                self.skipped += 1
            elif fault := self._tried(name, value, most):
                return fault
        return None

    def _tried_as_large_as_can_be(self) -> Fault | None:
        """Try the only size once more, where all programs have to run: it has the budget of two."""
        if len(self.sizes) > 1 or not self._joint:
            return None
        self.allowed = self.spent + BUDGET_LARGE
        (values,) = self.sizes.values()
        return self._tried_each(
            self._growing(BUDGET_LARGE, values[-1:], self.sizes), most=BUDGET_LARGE
        )

    def _tried_beyond(self, likely: list[Constant]) -> Fault | None:
        """Try sizes with a whole tile beyond a large number, by the programs at the ends."""
        if self._joint:
            return None
        self.allowed, self._ends, self._step = self.spent + BUDGET_BEYOND, True, TILE
        large = [it for it in likely if it.value >= LARGE]
        for name, value in _candidates(large, self.sizes, steps=(TILE,)):
            if value in self._took[name] or self._is_spent():
                continue
            if fault := self._tried(name, value, most=self.allowed - self.spent):
                return fault
        self._ends, self._step = False, 1
        return None

    def _tried_together(self, likely: list[Constant]) -> Fault | None:
        """Try each size while the others are larger: tiles have other shapes then."""
        if len(self.sizes) == 1:
            return None
        alone, least, share = self._took, self._least, BUDGET_TOGETHER / len(self.sizes)
        each = int(TOGETHER ** (1 / (len(self.sizes) - 1))) + 1
        larger = {
            name: values[min(max(-(-(each - values.start) // values.step), 0), len(values) - 1)]
            for name, values in self.sizes.items()
        }
        for name in self.sizes:
            if max(self._expected(*it) for it in larger.items() if it[0] != name) >= share:
                continue
            near = self._near(likely, [name])
            self._least, self._took = larger | {name: least[name]}, {name: {}}
            before, self.allowed = self.spent, self.spent + share
            try:
                fault = self._fault({}, most=share)
            except work.TooMuch:
                fault = None
            else:
                if fault and (shown := self._shown({}, fault)):
                    return shown
                self._took[name][least[name]] = self.spent - before
                fault = self._tried_anew(near, alone, share)
            self._took, self._least = alone, least
            if fault:
                return fault
        return None

    def _tried_in_pairs(self, likely: list[Constant]) -> Fault | None:
        """Try two sizes beyond numbers, or grown, at once: as large as one case may be.

        Of the sizes that a limit of both would have to pass, the most equal ones come first.
        """
        alone, least, pairs = self._took, self._least, [*itertools.combinations(self.sizes, 2)]
        if len(pairs) > MANY_PAIRS:
            return None
        near = {
            name: {it for _, it in _candidates(likely, {name: values}, steps=(1,))}
            for name, values in self.sizes.items()
        }
        for x, y in pairs:
            share = BUDGET_PAIRS / len(pairs)
            self.allowed = self.spent + share
            cases = []
            for first in alone[x].keys() - {least[x]}:
                fitting = [
                    it
                    for it in (near[y] | alone[y].keys()) - {least[y]}
                    if self._expected_of_both((x, first), (y, it)) < share
                ]
                if fitting:
                    cases.append((first, max(fitting)))
            cases.sort(
                key=lambda it: ((it[0] in near[x]) + (it[1] in near[y]), min(it)), reverse=True
            )
            for first, second in cases[:MOST_PAIRS]:
                if self._is_spent(self._expected_of_both((x, first), (y, second))):
                    continue
                self._least, self._took = least | {x: first}, {y: {least[y]: alone[x][first]}}
                fault = self._tried(y, second, most=share)
                self._least, self._took = least, alone
                if fault:
                    return fault
        return None

    def _expected_of_both(self, *chosen: tuple[str, int]) -> float:
        """Return what a case of two sizes takes, if what they take alone multiplies."""
        one, other = (self._expected(*it) - CALL for it in chosen)
        least = max(self._took[chosen[0][0]][self._least[chosen[0][0]]] - CALL, 1.0)
        elements = math.prod(value for _, value in chosen)
        return CALL + max(one * other / least, _units_of(elements))

    def _tried_in_dtypes(self, likely: list[Constant]) -> Fault | None:
        """Try each size alone in one of each kind of dtypes that the file tells from the first."""
        near, alone = self._near(likely, self.sizes), self._took
        of_the_first = [it for it in self._others if it.names == self._others[0].names]
        for other in self._others:
            share = BUDGET_DTYPES / (len(of_the_first) if other in of_the_first else 2)
            self._other, self.allowed = other, self.spent + share
            before = self.spent
            try:
                fault = self._fault({}, most=share)
            except work.TooMuch:
                continue
            if fault:
                # What is wrong at the least sizes is no limit, and other tests say it.
                continue
            self._took = {name: {it: self.spent - before} for name, it in self._least.items()}
            if fault := self._tried_anew(near, alone, share):
                return fault
        return None

    def _near(self, likely: list[Constant], names: Iterable[str]) -> dict[str, dict[int, float]]:
        """Return the values just above likely numbers, of each size, and what they take alone."""
        found: dict[str, dict[int, float]] = {name: {} for name in names}
        for name, value in _candidates(
            likely, {name: self.sizes[name] for name in found}, steps=(1,)
        ):
            found[name][value] = self._expected(name, value)
        return found

    def _tried_anew(
        self,
        near: Mapping[str, Mapping[int, float]],
        alone: Mapping[str, Mapping[int, float]],
        share: float,
    ) -> Fault | None:
        """Try sizes in other surroundings, where their least values are right.

        The largest that seems to fit is beyond all numbers that a smaller one is beyond. A few that
        grow come after these.

        near: see `_near`
        alone: what calls took in the first surroundings
        """
        largest = []
        for name, values in near.items():
            least = self._least[name]
            grown = self._took[name][least] / alone[name][least]
            held = math.prod(it for other, it in self._least.items() if other != name)
            fitting = {
                value: max(units * grown, _units_of(held * value))
                for value, units in values.items()
            }
            fitting = {value: units for value, units in fitting.items() if units < share}
            if fitting:
                largest.append((fitting[max(fitting)], name, max(fitting)))
        few = self._growing(share / 3 / len(near), GROWING, {it: self.sizes[it] for it in near})
        return self._tried_each(
            itertools.chain(((name, value) for _, name, value in sorted(largest)), few), share
        )

    def _tried(self, name: str, value: int, most: float = MOST_OF_A_CASE) -> Fault | None:
        """Return what is wrong with a case, told as a limit, and take notice of what it takes."""
        before = self.spent
        try:
            fault = self._fault({name: value}, most)
        except work.TooMuch:
            self.skipped += 1
            self._took[name][value] = math.inf
            return None
        if fault and (told := self._told(name, value, fault, most)):
            return told
        self._took[name][value] = self.spent - before
        return None

    def _growing(
        self, share: float, rungs: Sequence[int], sizes: Sizes
    ) -> Iterator[tuple[str, int]]:
        """Yield each size larger and larger, up to what takes its share of the work.

        Whatever ends below is found by these few, wherever its limit comes from.
        """
        last: dict[str, int] = {}
        for rung in rungs:
            for name, values in sizes.items():
                if name in last or self._is_spent():
                    continue
                at = min(max(-(-(rung - values.start) // values.step), 0), len(values) - 1)
                if values[at] in self._took[name]:
                    continue
                most = min(share, self.allowed - self.spent)
                if self._expected(name, values[at]) >= most:
                    low = values.index(max(self._took[name]))
                    while at - low > 1:
                        middle = (low + at) // 2
                        if self._expected(name, values[middle]) < most:
                            low = middle
                        else:
                            at = middle
                    at = last[name] = low
                    if values[at] < 1.5 * max(self._took[name]):
                        continue
                if values[at] not in self._took[name]:
                    yield name, values[at]

    def _cheapest_first(self, candidates: list[tuple[str, int]]) -> Iterator[tuple[str, int]]:
        while candidates:
            cheapest = min(candidates, key=lambda it: self._expected(*it))
            candidates.remove(cheapest)
            yield cheapest

    def _is_spent(self, more: float = 0.0) -> bool:
        return self.spent + more >= self.allowed

    def _expected(self, name: str, value: int) -> float:
        """Return what a case will take, by those of smaller values."""
        if not settings.interpreted:
            return 0.0
        took, least = self._took[name], self._least[name]
        smaller = max(it for it in took if it <= value)
        if smaller == least:
            return took[least]
        return took[smaller] + (took[smaller] - took[least]) / (smaller - least) * (value - smaller)

    def _fault(self, chosen: Values, most: float = MOST_OF_A_CASE) -> Fault | None:
        """Return what is wrong with one case, if anything is. Raises TooMuch."""
        with self._case(chosen) as arguments:
            most = most if settings.interpreted else float("inf")
            with work.at_most(most) as meter:
                try:
                    meter.spend(CALL + _elements(arguments) / ELEMENTS)
                    return self._wrong(arguments, self._least | chosen)
                finally:
                    self.spent += meter.spent if settings.interpreted else 1

    def _wrong(self, arguments: Arguments, values: Values) -> Fault | None:
        """Return what is wrong with a call, without a diagnosis, or UNFILLED. Raises TooMuch."""
        call, results = self.kernel.guarded(arguments), ResultCheck(self.kernel)
        how: dict[str, Any] = {"poison": self.kernel.poison, "rehearse": False}
        try:
            joint = any(values[name] >= least for name, least in self._joint.items())
            if not (self._whole or joint) and (outcome := self._of_some(call, values, how)):
                count = sum(math.prod(launch.grid) for launch in outcome.launches)
                # The reference, in two dtypes, comes to more than what few programs do.
                work.spend(2 * sum(it.numel() for it in outcome.results) / ELEMENTS)
                expected = results.expected(call.original)
                partly = len({*self._some(count)}) < count
                if mismatch := results.mismatch_of(outcome, expected, partly=partly):
                    return mismatch.fault()
                if not self._lacks(call, outcome, expected, count):
                    self._check_kept(results, arguments, expected, self._some)
                    return None
                if count > MOST_PROGRAMS:
                    return UNFILLED if self._suspects else None
                call.restore()
            outcome, expected = call.run(order="shuffled", **how), results.expected(call.original)
            if mismatch := results.mismatch_of(outcome, expected):
                return mismatch.fault()
            self._check_kept(results, arguments, expected, "all")
        except Wrong as wrong:
            return wrong.fault
        return None

    def _check_kept(
        self, results: ResultCheck, arguments: Arguments, expected: Expected, programs: Programs
    ) -> None:
        """Raises Wrong, and TooMuch, where a right call is wrong after one with other numbers."""
        if self.kernel.strict and settings.interpreted:
            poison = self.kernel.poison
            # What a case takes tells what a larger one will take, without this.
            with work.at_most(MOST_OF_A_CASE):
                results.check_other_contents(arguments, expected, poison=poison, programs=programs)

    def _of_some(self, call: GuardedCall, values: Values, how: dict[str, Any]) -> Outcome | None:
        """Run a few programs of a call, if they need no others. Raises Wrong and TooMuch."""
        try:
            outcome = call.run(programs=self._some, **how)
        except work.TooMuch:
            raise
        except NotMeasured:
            pass  # The launcher reads what was not computed.
        else:
            assert outcome.watch
            if len(outcome.launches) <= 1 and not outcome.watch.has_atomics:
                return outcome
        larger = {name: it for name, it in values.items() if it > self.sizes[name][0]}
        self._joint |= larger or values
        call.restore()
        return None

    def _lacks(self, call: GuardedCall, outcome: Outcome, expected: Expected, count: int) -> bool:
        """Whether no program stored so much that so many like it fill each result.

        Or the last one, which ran, stored nothing. Of what is changed in place, the elements that
        change have to be stored.
        """
        watch, needed = outcome.watch, [it.numel() for it in outcome.results]
        assert watch
        if self.kernel.rules.in_place:
            before = (call.original.tensors[name] for name in self.kernel.rules.in_place)
            needed = [int((x != y).sum()) for x, y in zip(before, expected.own, strict=True)]
        stored = [watch.stored_by(result) for result in outcome.results]
        if max(map(len, stored)) < count:
            return True
        pairs = zip(stored, needed, strict=True)
        return any(int(it.max(initial=0)) * count < least for it, least in pairs)

    def _some(self, count: int) -> Iterable[int]:
        """Return the programs of a launch that run in place of all."""
        if self._ends and count > 4:
            return 0, 1, count - 2, count - 1
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
            arguments = self.kernel.arguments(tuple(inputs), options)
            yield self._other(arguments) if self._other else arguments

    def _told(self, name: str, value: int, fault: Fault, most: float) -> Fault | None:
        """Return the fault with the sizes between which right turns into wrong, None if none is."""
        smaller = max(n for n, it in self._took[name].items() if n < value and it < math.inf)
        right, wrong, fault = self._between(name, smaller, value, fault, most)
        seen: Fault | None = fault
        before = self.spent
        if self._step == 1:
            # What few programs seem not to fill all may fill, and the other way round.
            self._whole = True
            with contextlib.suppress(work.TooMuch):
                if fault is UNFILLED:
                    seen = self._fault({name: wrong}, MOST_OF_ALL)
                if seen and (found := self._fault({name: right}, MOST_OF_ALL)):
                    least = self._least[name]
                    right, wrong, seen = self._between(name, least, right, found, most)
            self._whole = not settings.interpreted
        if seen is None or seen is UNFILLED:
            # All programs fill what few seemed not to fill, or are too many to see it.
            self._suspects, self.spent = False, before
            return None
        shown = self._shown({name: wrong}, seen)
        told: dict[str, Any] = {"size": name, "right": right, "wrong": wrong}
        if self._other:
            told |= {"dtype": dtype_name(self._other.dtype), "of": self._other.names}
        if held := {n: it for n, it in self._least.items() if n != name and it > self.sizes[n][0]}:
            told["beside"] = held
        cause = _cause(self.constants, told)
        return shown and shown.but(
            cause=Cause(cause, SHOWN), remedy=shown.remedy or note("no-limit")
        )

    def _between(
        self, name: str, right: int, wrong: int, fault: Fault, most: float
    ) -> tuple[int, int, Fault]:
        """Return values as near as can be of which one is right, the other wrong, and its fault."""
        values = self.sizes[name]
        low, high = values.index(right), values.index(wrong)
        # A case of few programs takes long where its result is wrong, and so few are enough.
        guess = high - self._step
        begun = self.spent
        while high - low > 1 and self.spent - begun < MOST_TO_TELL:
            at = guess if low < guess < high else (low + high) // 2
            guess = low
            try:
                found = self._fault({name: values[at]}, max(most, MOST_OF_A_CASE))
            except work.TooMuch:
                break
            if found:
                high, fault = at, found
            else:
                low = at
            if self._step > 1:
                break
        return values[low], values[high], fault

    def _shown(self, chosen: Values, fault: Fault) -> Fault | None:
        """Return what is wrong with a case, as a check of all programs says it where that is short.

        None if all programs fill results that few seemed not to fill.
        """
        run = self.kernel.run
        with self._case(chosen) as arguments:
            most = 0.0 if self._step > 1 else MOST_OF_ALL
            # The limit is the cause: no other is looked for.
            before, run.defers = run.defers, True
            with contextlib.suppress(work.TooMuch), work.at_most(most) as meter:
                try:
                    meter.spend(CALL)
                    self.kernel.check(*arguments.positional, **arguments.keyword)
                except Wrong as wrong:
                    fault = wrong.fault
                finally:
                    run.defers = before
            call = self.kernel.called(arguments)
        if fault is UNFILLED:
            self._suspects = False
            return None
        known = fault.call is not None or fault.place is not None
        return fault.but(call=fault.call if known else call)


def _elements(arguments: Arguments) -> int:
    return sum(tensor.numel() for tensor in arguments.tensors.values())


def _units_of(elements: int) -> float:
    """Return what a result of so many elements takes."""
    return 2 * elements / ELEMENTS


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


def _cause(known: Iterable[Constant], shown: Mapping[str, Any]) -> Any:
    """Return what is said of a limit: the number of the file that it is, if it is one.

    shown: the size, the values that are right and wrong, and what the other cases do not have
    """
    for value in (shown["right"], shown["wrong"]):
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
