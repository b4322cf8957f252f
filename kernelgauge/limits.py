"""Look for sizes up to which a subject is right and beyond which it is not.

Each size grows first, while the others are as small as they can be. What has a limit below is wrong
then, and bisection finds the limit. A limit mostly stands in the subject's own file, as a number or
as a product of two, and so each size is then tried just above, at and just below each of them.
Which cases are tried depends on the file and on what the interpreter does for them, never on the
time that it takes.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernelgauge.core import work
from kernelgauge.core.arguments import Arguments
from kernelgauge.core.figure import Figure
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Wrong
from kernelgauge.results import ResultCheck
from kernelgauge.subject.constants import AT_AN_END, Constant, constants
from kernelgauge.words.fault import SHOWN, Cause, Fault, note

if TYPE_CHECKING:
    from kernelgauge.kernel import Kernel

# Units of work for all cases of a test, and for one of them.
BUDGET = 6_500.0
MOST_OF_A_CASE = 4_500.0
# What a call takes beside its programs, and how many elements of its inputs take a unit.
CALL = 60.0
ELEMENTS = 1_000
# Sizes below this come after larger ones.
SMALL = 32
# What a size is at first, before the numbers of the file are tried.
GROWING = tuple(8**power * 4 + 1 for power in range(1, 7))
# A GPU compiles a kernel anew for most sizes.
MAX_CASES_ON_GPU = 16

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
            _candidates(likely, self.sizes, steps=(1,)),
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
        if fault:
            return self._told(name, value, fault)
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

    def _is_spent(self, more: float = 0.0) -> bool:
        return self.spent + more >= (BUDGET if settings.interpreted else MAX_CASES_ON_GPU)

    def _expected(self, name: str, value: int) -> float:
        """Return what a case will take, by those of smaller values."""
        if not settings.interpreted:
            return 0.0
        took, least = self._took[name], self._least[name]
        smaller = max(it for it in took if it < value)
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
                    return _wrong(self.kernel, arguments)
                finally:
                    self.spent += meter.spent if settings.interpreted else 1

    @contextlib.contextmanager
    def _case(self, chosen: Values) -> Iterator[Arguments]:
        """Yield the arguments of a call with these sizes, and the others at their least."""
        values = self._least | chosen
        *inputs, last = self.build(**values)
        options = last if isinstance(last, dict) else {}
        inputs = inputs if isinstance(last, dict) else [*inputs, last]
        with self.setting(values):
            yield self.kernel.arguments(tuple(inputs), options)

    def _told(self, name: str, value: int, fault: Fault) -> Fault:
        """Return the fault with the sizes between which right turns into wrong."""
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
            with contextlib.suppress(work.TooMuch):
                try:
                    self.kernel.check(*arguments.positional, **arguments.keyword)
                except Wrong as wrong:
                    fault = wrong.fault
            call = self.kernel.called(arguments)
        cause = _cause(self.constants, name, values[low], values[high])
        known = fault.call is not None or fault.place is not None
        return fault.but(
            call=fault.call if known else call,
            cause=Cause(cause, SHOWN),
            remedy=fault.remedy or note("no-limit"),
        )


def _wrong(kernel: Kernel, arguments: Arguments) -> Fault | None:
    """Return what is wrong with a call, without a diagnosis."""
    call, results = kernel.guarded(arguments), ResultCheck(kernel)
    try:
        outcome = call.run(order="shuffled", poison=kernel.poison, rehearse=False)
        mismatch = results.mismatch_of(outcome, results.expected(call.original))
    except Wrong as wrong:
        return wrong.fault
    return mismatch.fault() if mismatch else None


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
