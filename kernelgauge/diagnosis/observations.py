"""What failing cases leave, and the diagnosis of all of them together.

A cause is a hypothesis about the kernel, not about one case: the one is named that explains most of
the wrong results and that none of them contradicts. Results that pass say nothing, since a mistake
may need what they do not have, such as a last tile that is not full.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch

from kernelgauge.core.dtypes import double
from kernelgauge.diagnosis import report
from kernelgauge.diagnosis.symptoms import GUESSES
from kernelgauge.diagnosis.what_if import IMPOSSIBLE
from kernelgauge.diagnosis.wrong_result import Mistake, WrongResult
from kernelgauge.words.fault import CONSISTENT, PROVEN, Cause, Fault, Note

# So many times what is allowed is beyond any order of roundings.
CLEARLY = 8.0
# A result of which less than this differs may come from the same mistake.
MIN_SHARE = 0.05
# Looking for mistakes stops after so many seconds of the processor.
MAX_SECONDS = 20.0
# And after this, once one is found that other cases say nothing of.
MAX_SECONDS_MORE = 2.0
# Larger results are not kept until all cases are through.
MAX_DEFERRED_ELEMENTS = 2**20
# Causes are looked for in so many cases, and compared with so many others while they are sought.
MAX_PROBES = 4
MAX_COMPARED = 6


@dataclass
class Observation:
    """A case whose result is wrong, and the means to learn more of it.

    fault: what is known without a cause; or with one that a run has shown
    number: of the result that was found to be wrong first
    wrong: the wrong ones of the subject's results, by number
    mistakes: yields what may have been done wrong with the result of this number
    values: the arguments that the subject was called with, by name
    at_fault: finds the option without which the same call is right, if there is one. It takes the
        values of the arguments of the other cases that fail
    """

    fault: Fault
    number: int
    wrong: Mapping[int, WrongResult]
    mistakes: Callable[[int], Iterable[Mistake]]
    values: Mapping[str, object] = field(default_factory=dict)
    at_fault: Callable[[Iterable[Mapping[str, object]]], Cause | None] = lambda others: None
    _known: dict[int, dict[tuple, list[Mistake]]] = field(default_factory=dict)
    _verdicts: dict[tuple[int, tuple], bool | None] = field(default_factory=dict)

    @property
    def result(self) -> WrongResult:
        """The result that was found to be wrong first."""
        return self.wrong[self.number]

    @property
    def elements(self) -> int:
        """How many elements its results have."""
        return sum(wrong.got.numel() for wrong in self.wrong.values())

    @cached_property
    def suggestions(self) -> report.Suggestions:
        """What the wrong result by itself suggests."""
        return report.suggestions(self.result)

    def told(self, cause: Cause | None, *, patterns: bool = False) -> Fault:
        """Return the fault with this cause.

        patterns: whether to look for patterns, where no mistake explains the result
        """
        explained = cause is not None and cause.known == PROVEN
        shown = self.suggestions.patterns if patterns and not explained else ()
        return report.describe(self.fault, self.result, cause, shown)

    def gives(self, number: int, cause: Note) -> bool | None:
        """Return whether this mistake gives the wrong result here, None if that is unclear."""
        key = number, cause.key
        if key not in self._verdicts:
            self._verdicts[key] = self._verdict(number, cause)
        return self._verdicts[key]

    def made_by(self, number: int, cause: Note) -> Mistake | None:
        """Return this mistake as it would be made in this case, if it gives the result."""
        wrong = self.wrong[number]
        for mistake in self._of(number, cause):
            made = computed(mistake)
            if made is not None and wrong.is_made_by(made):
                return mistake
        return None

    def _verdict(self, number: int, cause: Note) -> bool | None:
        verdicts = set()
        for mistake in self._of(number, cause):
            verdicts.add(self._gives(number, mistake))
            if True in verdicts:
                return True
        return False if verdicts == {False} else None

    def _gives(self, number: int, mistake: Mistake) -> bool | None:
        wrong = self.wrong[number]
        made = computed(mistake)
        if made is None:
            return None
        if wrong.has_numbers and wrong.is_made_by(made):
            return True
        return False if wrong.clearly_differs(made, CLEARLY, MIN_SHARE) else None

    def _of(self, number: int, cause: Note) -> list[Mistake]:
        if number not in self._known:
            known: dict[tuple, list[Mistake]] = {}
            for mistake in self.mistakes(number):
                known.setdefault(mistake.cause.key, []).append(mistake)
            self._known[number] = known
        return self._known[number].get(cause.key, [])


def diagnose(observations: Sequence[Observation]) -> list[Fault]:
    """Return the faults of these failing cases of one subject, with their causes.

    They are taken in this order, the simplest first.
    """
    causes = {id(it): it.fault.cause for it in observations if it.fault.cause}
    open_ = [it for it in observations if id(it) not in causes]
    for cause, explained in _mistakes(open_):
        for it in explained:
            causes.setdefault(id(it), _own(cause, it))
    named = any(cause.known == PROVEN for cause in causes.values())
    rest = [it for it in open_ if id(it) not in causes]
    for it in rest:
        if cause := _suggested(it, rest, named):
            causes[id(it)] = cause
    return [it.told(causes.get(id(it)), patterns=True) for it in observations]


def _mistakes(observations: list[Observation]) -> Iterator[tuple[Cause, list[Observation]]]:
    """Yield the mistakes that give results exactly, and the cases that each of them explains."""
    until = time.process_time() + MAX_SECONDS
    left = [it for it in observations if it.result.drift is None]
    named: list[Note] = []
    for _ in range(MAX_PROBES):
        probe = next((it for it in left if it.result.has_numbers), left[0] if left else None)
        if probe is None or time.process_time() > until:
            return
        others = [it for it in observations if it is not probe and probe.number in it.wrong]
        cause = _mistake(probe, others, named, until)
        left.remove(probe)
        if cause is None:
            continue
        named.append(cause.note)
        explained = [
            it
            for it in left
            if it.number == probe.number and it.made_by(it.number, cause.note) is not None
        ]
        left = [it for it in left if it not in explained]
        count = sum(it.gives(probe.number, cause.note) is True for it in others)
        yield (
            replace(cause, explains=count + 1, of=len(observations)),
            [probe, *explained],
        )


def _mistake(
    probe: Observation, others: Sequence[Observation], named: Sequence[Note], until: float
) -> Cause | None:
    """Find a mistake that gives exactly this result, and that no other case refutes.

    The first that other cases confirm and none contradicts, or else the one that most confirm. Of a
    result without numbers, only one that a case with numbers confirms.
    """
    best, most = None, -1
    number, keys = probe.number, {note.key for note in named}
    compared = sorted(others, key=lambda it: not it.wrong[number].has_numbers)[:MAX_COMPARED]
    # What was done wrong elsewhere is likelier.
    likely = [it for it in probe.mistakes(number) if it.cause.key in keys] if keys else []
    for candidates in (likely, probe.mistakes(number)):
        for mistake in candidates:
            if time.process_time() > until:
                break
            if mistake.changes_nothing:
                continue
            made = computed(mistake)
            if made is None or not probe.result.is_made_by(made):
                continue
            verdicts = [it.gives(number, mistake.cause) for it in compared]
            confirmed, contradicted = verdicts.count(True), verdicts.count(False)
            # With two faults, each is made somewhere.
            if contradicted and not confirmed:
                continue
            if not (confirmed or probe.result.has_numbers):
                continue
            cause = Cause(mistake.cause, PROVEN, given=mistake.given)
            if confirmed and not contradicted:
                return cause
            if confirmed > most:
                best, most = cause, confirmed
                until = min(until, time.process_time() + MAX_SECONDS_MORE)
    return best


def _own(cause: Cause, observation: Observation) -> Cause:
    """Return a cause with the numbers of this case."""
    mistake = observation.made_by(observation.number, cause.note)
    if mistake is None:
        return cause
    return replace(cause, note=mistake.cause, given=mistake.given)


def _suggested(observation: Observation, rest: Sequence[Observation], named: bool) -> Cause | None:
    """Return the likeliest cause of those that the pattern of a wrong result suggests.

    rest: all cases that no mistake explains; named: whether one explains others
    """
    others = [it for it in rest if it is not observation and observation.number in it.wrong]
    keys = [{note.key for note in it.suggestions.causes} for it in others]

    def is_told(cause: Note) -> bool:
        # A guess fits many a result. What is wrong elsewhere is known, and likelier.
        if cause.id not in GUESSES:
            return True
        return not named and 2 * sum(cause.key in known for known in keys) >= len(keys)

    own = observation.suggestions
    cause = next(filter(is_told, own.strong), None)
    # Of NaN and infinity the symptoms know more.
    result = observation.result
    with_numbers = bool(result.got[result.wrong].isfinite().all())
    if not cause and with_numbers and (found := observation.at_fault(it.values for it in others)):
        return found
    cause = cause or next(filter(is_told, own.causes), None)
    if cause is None:
        return None
    explains = 1 + sum(cause.key in known for known in keys)
    return Cause(cause, CONSISTENT, explains, len(rest))


def computed(mistake: Mistake) -> torch.Tensor | None:
    """Return the result that a mistake would give, in float64; None where it is impossible."""
    try:
        return double(mistake.compute().detach().cpu())
    except IMPOSSIBLE:
        return None
