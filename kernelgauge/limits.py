"""Look for sizes up to which a subject is right and beyond which it is not.

Such a limit mostly stands in the subject's own file, as a number or as a product of two. Each size
is tried just above, at and just below each of them, while the other sizes are as small as they can
be. Which cases are tried depends on the file and on what the interpreter does for them, never on
the time that it takes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kernelgauge.core.arguments import Arguments
from kernelgauge.core.figure import Figure
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Wrong
from kernelgauge.memory import work
from kernelgauge.results import ResultCheck
from kernelgauge.subject.constants import Constant, constants
from kernelgauge.words.fault import SHOWN, Cause, Fault, note

if TYPE_CHECKING:
    from kernelgauge.kernel import Kernel

# Units of work for all cases of a test, and for one of them.
BUDGET = 8_000.0
MOST_OF_A_CASE = 2_500.0
# What a call takes beside its programs, and how many elements of its inputs take a unit.
CALL = 60.0
ELEMENTS = 1_000
# Sizes below this come after larger ones.
SMALL = 32
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
        self.constants = constants(kernel.path.read_text(encoding="utf-8"))
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
        for name, value in _candidates(self.constants, self.sizes):
            if self._takes_too_long(name, value):
                self.skipped += 1
                continue
            before = self.spent
            try:
                fault = self._fault({name: value})
            except work.TooMuch:
                self.skipped += 1
            else:
                if fault:
                    return self._told(name, value, fault)
            self._took[name][value] = self.spent - before
        return None

    def _takes_too_long(self, name: str, value: int) -> bool:
        """Whether a case is likely to be too much, or nothing is left to spend."""
        if not settings.interpreted:
            return self.spent >= MAX_CASES_ON_GPU
        took, least = self._took[name], self._least[name]
        smaller = max(it for it in took if it < value)
        expected = took[smaller]
        if smaller > least:
            expected += (expected - took[least]) / (smaller - least) * (value - smaller)
        return expected >= MOST_OF_A_CASE or self.spent >= BUDGET

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


def _candidates(known: Iterable[Constant], sizes: Sizes) -> list[tuple[str, int]]:
    """Return sizes to try, each once: all just above a number first, then at, then below."""
    found: list[tuple[str, int]] = []
    # Most small sizes are those of other cases, too.
    known = sorted(known, key=lambda it: (it.rank + (it.value < SMALL) * (it.rank + 1), it.value))
    for step in (1, 0, -1):
        for constant in known:
            for name, values in sizes.items():
                # The largest of the values that is no larger than the number.
                at = (constant.value - values.start) // values.step
                if at >= 0 and 0 < at + step < len(values):
                    found.append((name, values[at + step]))
    # One of each size goes first and shows what larger ones will take.
    firsts = [
        min(
            (it for it in found if it[0] == name),
            key=lambda it: (it[1] <= SMALL, it[1]),
            default=None,
        )
        for name in sizes
    ]
    return list(dict.fromkeys([*filter(None, firsts), *found]))


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
                    lines=list(constant.lines),
                )
    return note("limit-of-a-size", **shown)
