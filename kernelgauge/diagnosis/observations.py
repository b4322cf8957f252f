"""What failing cases leave, and the diagnosis of all of them together.

A cause is a hypothesis about the kernel, not about one case: the one is named that explains most of
the wrong results and that none of them contradicts. Results that pass say little, since a mistake
may need what they do not have, such as a last tile that is not full; but a tile that is right in
one case is not left out in another.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch

from kernelgauge.core.dtypes import double
from kernelgauge.diagnosis import repair, report
from kernelgauge.diagnosis.edits import STORES, Doubted
from kernelgauge.diagnosis.symptoms import FEW_BITS, GUESSES, OPEN, SHOWN, SOLE, VAGUE
from kernelgauge.diagnosis.what_if import IMPOSSIBLE
from kernelgauge.diagnosis.wrong_result import Mistake, WrongResult
from kernelgauge.memory.call_sites import CallSite
from kernelgauge.words.fault import CONSISTENT, PROVEN, Cause, Fault, Note
from kernelgauge.words.fault import SHOWN as SHOWN_BY_A_RUN

# So many times what is allowed is beyond any order of roundings.
CLEARLY = 8.0
# A result of which less than this differs may come from the same mistake.
MIN_SHARE = 0.05
# Into fewer wrong elements than this many a mistake fits.
MIN_TELLING = 16
# Looking for mistakes stops after so many seconds of the processor.
MAX_SECONDS = 20.0
# And after this, once one is found that other cases say nothing of.
MAX_SECONDS_MORE = 2.0
# What a pattern suggests is told where at least this share of the cases has it.
MIN_SHARE_TOLD = 1 / 3
# Remedies that leave open what is to be done.
QUESTIONS = frozenset(
    {"grid-or-mask", "mask-of-store", "race-of-stores", "tile-numbers-of-nobody", "tiles-of-nobody"}
)
# Where so many cases have no cause, a mistake has to give more than one.
MANY = 4
# Larger results are not kept until all cases are through.
MAX_DEFERRED_ELEMENTS = 2**20
# Mistakes are looked for in so many cases, as long as none explains them.
MAX_PROBES = 12


class Right(NamedTuple):
    """A call that was right.

    programs: how many made it
    shapes: of its results
    case: makes it again with edits of the subject's source
    """

    programs: int
    shapes: tuple[torch.Size, ...]
    case: repair.Case | None = None


@dataclass(eq=False)
class Unexplained:
    """A case that ended with a fault of which more is asked than told.

    case: makes the call again with edits of the subject's source
    """

    fault: Fault
    case: repair.Case | None


@dataclass(eq=False)
class Observation:
    """A case whose result is wrong, and the means to learn more of it.

    fault: what is known without a cause; or with one that a run has shown
    number: of the result that was found to be wrong first
    wrong: the wrong ones of the subject's results, by number
    mistakes: yields what may have been done wrong with the result of this number
    values: the arguments that the subject was called with, by name
    programs: how many programs were launched
    at_fault: finds the option without which the same call is right, if there is one. It takes the
        values of the arguments of the other cases that fail
    depends: finds on which parts of the inputs its worst element wrongly depends, or does not
    rounds: finds the line whose roundings to 16 bits make its worst element wrong, and what is said
        of it. It takes the one line to look at, or None for all
    case: makes the call again with edits of the subject's source
    """

    fault: Fault
    number: int
    wrong: Mapping[int, WrongResult]
    mistakes: Callable[[int], Iterable[Mistake]]
    values: Mapping[str, object] = field(default_factory=dict)
    programs: int = 1
    at_fault: Callable[[Iterable[Mapping[str, object]]], Cause | None] = lambda others: None
    depends: Callable[[], Note | None] = lambda: None
    rounds: Callable[[CallSite | None], tuple[CallSite, Note] | None] = lambda only: None
    case: repair.Case | None = None
    _weighed: dict[int, _AllWeighed] = field(default_factory=dict)
    _suggestions: dict[int, report.Suggestions] = field(default_factory=dict)
    _reached: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def result(self) -> WrongResult:
        """The result that was found to be wrong first."""
        return self.wrong[self.number]

    @property
    def elements(self) -> int:
        """How many elements its results have."""
        return sum(wrong.got.numel() for wrong in self.wrong.values())

    def suggestions(self, number: int) -> report.Suggestions:
        """Return what the wrong result of this number by itself suggests."""
        if number not in self._suggestions:
            self._suggestions[number] = report.suggestions(self.wrong[number])
        return self._suggestions[number]

    def reached(self, number: int) -> tuple[int, ...]:
        """Return where along each dimension the first wrong element of this result is."""
        if number not in self._reached:
            at = self.wrong[number].wrong.nonzero()
            self._reached[number] = tuple(at.amin(0).tolist())
        return self._reached[number]

    def told(
        self, cause: Cause | None, *, patterns: bool = False, depends: Note | None = None
    ) -> Fault:
        """Return the fault with this cause.

        patterns: whether to look for patterns, where no mistake explains the result
        depends: what its worst element depends on
        """
        explained = cause is not None and cause.known == PROVEN
        shown = self.suggestions(self.number).patterns if patterns and not explained else ()
        fault = self.fault
        if depends:
            fault = fault.but(said=(*fault.said, depends))
        return report.describe(fault, self.result, cause, shown)

    def candidates(self, number: int) -> Iterable[Weighed]:
        """Return the mistakes to try on the result of this number."""
        if number not in self._weighed:
            self._weighed[number] = _AllWeighed(self.wrong[number], self.mistakes(number))
        return self._weighed[number]

    def gives(self, number: int, cause: Note) -> bool | None:
        """Return whether this mistake gives the wrong result here, None if that is unclear.

        A result without numbers confirms nothing.
        """
        if self.made_by(number, cause):
            return self.wrong[number].has_numbers or None
        alike = self._alike(number, cause)
        return False if alike and all(it.clearly_differs for it in alike) else None

    def made_by(self, number: int, cause: Note) -> Mistake | None:
        """Return this mistake as it would be made in this case, if it gives the result."""
        return next((it.mistake for it in self._alike(number, cause) if it.gives_it), None)

    def _alike(self, number: int, cause: Note) -> list[Weighed]:
        return [it for it in self.candidates(number) if it.mistake.cause.key == cause.key]


class Weighed:
    """A mistake, beside a wrong result. What is asked for is computed once.

    gives_it: whether it gives the whole result
    clearly_differs: whether what it gives is something else, beyond any roundings
    """

    def __init__(self, mistake: Mistake, wrong: WrongResult):
        self.mistake = mistake
        self._wrong: WrongResult | None = wrong
        self._outcome = False, False
        # There may be hundreds of large ones, so a result is forgotten once it was compared.
        if mistake.is_computed:
            self._weigh()

    @property
    def gives_it(self) -> bool:
        return self._weigh()[0]

    @property
    def clearly_differs(self) -> bool:
        return self._weigh()[1]

    def _weigh(self) -> tuple[bool, bool]:
        wrong, self._wrong = self._wrong, None
        if wrong is None:
            return self._outcome
        made = computed(self.mistake)
        self.mistake = replace(self.mistake, compute=_forgotten)
        if made is not None:
            same = wrong.is_made_by(made)
            self._outcome = same, not same and wrong.clearly_differs(made, CLEARLY, MIN_SHARE)
        return self._outcome


def _forgotten() -> torch.Tensor:
    raise AssertionError("this result was compared and is not kept")


class _AllWeighed:
    """What an iterator of mistakes yields, weighed, to be iterated over again and again."""

    def __init__(self, wrong: WrongResult, mistakes: Iterable[Mistake]):
        self._rest = (Weighed(mistake, wrong) for mistake in mistakes)
        self._found: list[Weighed] = []

    def __iter__(self) -> Iterator[Weighed]:
        for at in itertools.count():
            if at == len(self._found):
                if (found := next(self._rest, None)) is None:
                    return
                self._found.append(found)
            yield self._found[at]


def diagnose(observations: Sequence[Observation], right: Sequence[Right] = ()) -> list[Fault]:
    """Return the faults of these failing cases of one subject, with their causes.

    right: the calls of it that were right

    What is named as a cause does not depend on the order of the cases. The first of those that are
    told first is looked at more closely if its cause is not known.
    """
    if not observations:
        return []
    causes = {id(it): it.fault.cause for it in observations if it.fault.cause}
    rest = sorted((it for it in observations if id(it) not in causes), key=_says_most)
    # Of two mistakes that give a result exactly, the one that gives more of them is likelier.
    found = sorted(_mistakes(rest, len(observations)), key=lambda it: -it.explains)
    for cause, it in itertools.product(found, rest):
        if id(it) not in causes and it.made_by(it.number, cause.note):
            causes[id(it)] = _own(cause, it)
    if len([it for it in rest if id(it) not in causes]) >= MANY:
        # A square, say, or a single row may fit many mistakes.
        causes = {key: it for key, it in causes.items() if it.known != PROVEN or it.explains > 1}
    rest = [it for it in rest if id(it) not in causes]
    most = max((it.explains for it in causes.values() if it.known == PROVEN), default=0)
    for it in rest:
        if suggested := _suggested(it, rest, right, most, len(observations)):
            causes[id(it)] = suggested
    causes |= _rounded(observations, causes)
    close, depends = _to_look_at(observations, causes, OPEN), None
    if close:
        depends = close.depends()
        repaired = _repaired(close, depends, observations, causes, right)
        causes |= repaired
        if repaired:
            depends = None
    return [
        it.told(causes.get(id(it)), patterns=True, depends=depends if it is close else None)
        for it in observations
    ]


def explain(
    unexplained: Sequence[Unexplained],
    observations: Sequence[Observation],
    right: Sequence[Right],
) -> list[Fault]:
    """Return the faults of these cases, with the edit of the source that makes them right.

    observations: the other cases that fail
    right: the calls that were right
    """
    found = _edit(unexplained, observations, right, STORES)
    if not found:
        return [it.fault for it in unexplained]
    return [it.fault.but(cause=Cause(found), remedy=None) for it in unexplained]


def _edit(
    wrong: Sequence[Unexplained | Observation],
    also: Sequence[Observation],
    right: Sequence[Right],
    doubted: Doubted,
) -> Note | None:
    """Return the edit that makes all of these right, where each can be made again.

    also, right, doubted: as `repair.find` takes them
    """
    cases, failing, passing = ([it.case for it in of if it.case] for of in (wrong, also, right))
    if not cases or len(cases) < len(wrong):
        return None
    return repair.find(cases, failing, passing, doubted)


def _repaired(
    close: Observation,
    depends: Note | None,
    observations: Sequence[Observation],
    causes: Mapping[int, Cause],
    right: Sequence[Right],
) -> dict[int, Cause]:
    """Return which edit of the source makes the cases right that have no cause or a vague one.

    depends: on which parts of the inputs an element of this case wrongly depends, or does not
    """
    if close.case is None:
        return {}
    vague = [it for it in observations if _is_vague(causes.get(id(it)), OPEN)]
    missed, seen = (depends.values[it] if depends else [] for it in ("missed", "seen"))
    # What was read in place of something else was looked for in the wrong place.
    parts = [*missed, *seen] if missed and seen else []
    doubted: Doubted = {it.values["tensor"] for it in parts if "tensor" in it.values}
    if (origin := close.result.origin) and origin.is_loaded and origin.said:
        doubted = origin.said.values["line"]
    found = _edit(vague, [it for it in observations if it not in vague], right, doubted)
    return {id(it): Cause(found) for it in vague} if found else {}


def _rounded(observations: Sequence[Observation], causes: Mapping[int, Cause]) -> dict[int, Cause]:
    """Return which cases are wrong because numbers are rounded to 16 bits, and in which line."""
    vague = VAGUE | FEW_BITS
    first = _to_look_at(observations, causes, vague)
    if first is None or (found := first.rounds(None)) is None:
        return {}
    line, said = found
    of_cases = {id(first): Cause(said, SHOWN_BY_A_RUN)}
    until = time.process_time() + MAX_SECONDS_MORE
    for it in observations:
        if it is first or not _is_vague(causes.get(id(it)), vague) or time.process_time() > until:
            continue
        if found := it.rounds(line):
            of_cases[id(it)] = Cause(found[1], SHOWN_BY_A_RUN)
    return of_cases


def _is_vague(cause: Cause | None, vague: Set[str]) -> bool:
    if cause is None:
        return True
    # That an option matters is shown, and why is not.
    is_open = cause.known == CONSISTENT or cause.note.id == "option-at-fault"
    return is_open and not vague.isdisjoint(_ids(cause.note))


def _ids(said: Note) -> set[str]:
    """Return the id of a note, and those of notes in it."""
    within = (_ids(it) for it in said.values.values() if isinstance(it, Note))
    return {said.id}.union(*within)


def _to_look_at(
    observations: Sequence[Observation], causes: Mapping[int, Cause], vague: Set[str]
) -> Observation | None:
    """Return the case that is told in full, if no cause is named there or only a vague one.

    vague: the ids of causes that are
    """
    groups: dict[Hashable, list[Observation]] = {}
    for it in observations:
        cause = causes.get(id(it))
        groups.setdefault(cause and cause.note.key, []).append(it)

    def rank(group: list[Observation]) -> tuple:
        named = [cause for it in group if (cause := causes.get(id(it)))]
        proven = any(cause.known == PROVEN and cause.explains > 1 for cause in named)
        return not proven, not named, -len(group)

    first = min(groups.values(), key=rank)[0]
    if first.result.drift is not None:
        return None
    return first if _is_vague(causes.get(id(first)), vague) else None


def _says_most(observation: Observation) -> tuple:
    """Return what puts the cases in order in which mistakes are looked for.

    Numbers tell more than NaN, many more than few, and those of many bits more; of small results
    mistakes are computed sooner.
    """
    result, fault = observation.result, observation.fault
    telling = min(int(result.wrong.sum()), MIN_TELLING)
    call = fault.call.arguments if fault.call else ""
    numbers = repr(fault.numbers)
    return not result.has_numbers, -telling, result.eps, observation.elements, call, numbers


def _mistakes(observations: Sequence[Observation], of: int) -> Iterator[Cause]:
    """Yield the mistakes that give results exactly, until they explain all.

    They are looked for in results that tell them, and may explain others, too.

    of: how many cases fail
    """
    until = time.process_time() + MAX_SECONDS
    left = [it for it in observations if it.result.drift is None]
    tried: list[Observation] = []
    while len(tried) < MAX_PROBES:
        untried = (it for it in left if it not in tried)
        if (probe := next(untried, None)) is None:
            return
        others = [it for it in observations if it is not probe and probe.number in it.wrong]
        if (cause := _mistake(probe, others, until)) is None:
            tried.append(probe)
            continue
        left = [it for it in left if not it.made_by(it.number, cause.note)]
        count = sum(it.made_by(it.number, cause.note) is not None for it in observations)
        yield replace(cause, explains=count, of=of)


def _mistake(probe: Observation, others: Sequence[Observation], until: float) -> Cause | None:
    """Find a mistake that gives exactly this result, and that no other case refutes.

    The first that other cases confirm and none contradicts, or else the one that explains most.

    others: those whose result of the same number is wrong, too
    """
    best, most, eps = None, -1, probe.result.eps
    for weighed in probe.candidates(probe.number):
        if time.process_time() > until:
            break
        mistake = weighed.mistake
        may_be = not mistake.changes_nothing and probe.result.tells(mistake.cause)
        if not (may_be and weighed.gives_it):
            continue
        verdicts = [it.gives(probe.number, mistake.cause) for it in others]
        confirmed, contradicted = True in verdicts, False in verdicts
        # With two faults, each is made somewhere.
        if contradicted and not confirmed:
            continue
        # Coarse results may fit many mistakes.
        finer = [v for v, it in zip(verdicts, others, strict=True) if it.result.eps < eps]
        if False in finer and True not in finer:
            continue
        cause = Cause(mistake.cause, PROVEN, given=mistake.given)
        if confirmed and not contradicted:
            return cause
        explained = sum(it.made_by(probe.number, mistake.cause) is not None for it in others)
        if explained > most:
            best, most = cause, explained
            until = min(until, time.process_time() + MAX_SECONDS_MORE)
    return best


def _own(cause: Cause, observation: Observation) -> Cause:
    """Return a cause with the numbers of this case."""
    mistake = observation.made_by(observation.number, cause.note)
    if mistake is None:
        return cause
    return replace(cause, note=mistake.cause, given=mistake.given)


def _suggested(
    observation: Observation,
    rest: Sequence[Observation],
    right: Sequence[Right],
    explained: int,
    of: int,
) -> Cause | None:
    """Return the likeliest cause of those that the pattern of a wrong result suggests.

    rest: all cases that no mistake explains
    right: the calls that were right
    explained: how many cases one mistake explains at most
    of: how many cases fail
    """
    number = observation.number
    others = [it for it in rest if it is not observation and number in it.wrong]
    reached = [(it.programs, it.reached(number)) for it in rest if number in it.wrong]
    reached += [(it.programs, it.shapes[number]) for it in right if number < len(it.shapes)]

    def causes_of(it: Observation) -> list[Note]:
        """Return what a result suggests, less what results that are right further on contradict.

        More programs may have more first tiles.
        """
        found = it.suggestions(number)
        dims = it.wrong[number].wrong.dim()
        alike = [at for programs, at in reached if len(at) == dims and programs <= it.programs]
        if all(any(at[dim] > first for at in alike) for dim, first in found.left_out):
            return [cause for cause in found.causes if cause.id != "tiles-left-out"]
        return found.causes

    suggested = [{_key(note) for note in causes_of(it)} for it in others]
    alike = Counter(key for keys in suggested for key in keys)
    most = max((n for key, n in alike.items() if key not in GUESSES), default=0)

    def is_told(cause: Note) -> bool:
        count = alike[_key(cause)]
        if cause.id in SHOWN:
            return True
        if cause.id in SOLE:
            return count == len(others)
        if cause.id in GUESSES:
            return not explained and 2 * count >= len(others)
        # What explains more cases is likelier, and what explains few of many is no cause of all.
        return count + 1 >= max(explained, most) and count + 1 >= MIN_SHARE_TOLD * len(rest)

    own = observation.suggestions(number)
    cause = next(filter(is_told, own.strong), None)
    # Of NaN and infinity the symptoms know more.
    result = observation.result
    with_numbers = bool(result.got[result.wrong].isfinite().all())
    if not cause and with_numbers and (found := observation.at_fault(it.values for it in others)):
        return found
    cause = cause or next(filter(is_told, causes_of(observation)), None)
    return Cause(cause, CONSISTENT, alike[_key(cause)] + 1, of) if cause else None


def _key(cause: Note) -> Hashable:
    """Return what a suggestion has in common with the same one of another case."""
    return cause.id if cause.id in GUESSES else cause.key


def computed(mistake: Mistake) -> torch.Tensor | None:
    """Return the result that a mistake would give, in float64; None where it is impossible."""
    try:
        return double(mistake.compute().detach().cpu())
    except IMPOSSIBLE:
        return None
