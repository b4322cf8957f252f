"""Other cases of the same puzzle, which confirm the diagnosis of one case or refute it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kernelgauge.core.dtypes import double
from kernelgauge.diagnosis.what_if import IMPOSSIBLE
from kernelgauge.diagnosis.wrong_result import Mistake, WrongResult
from kernelgauge.words.fault import Note

# So many times what is allowed is beyond any order of roundings.
CLEARLY = 8.0
# A result of which less than this differs may come from the same mistake.
MIN_SHARE = 0.05


class Weight(NamedTuple):
    """What other cases say of a mistake.

    confirmed: in how many of them it gives what the subject returned
    contradicted: in how many it clearly does not
    """

    confirmed: int
    contradicted: int

    @property
    def refuted(self) -> bool:
        """Whether it is not what the subject does. With two faults, each is made somewhere."""
        return self.contradicted > 0 and not self.confirmed


@dataclass
class OtherCase:
    """A case that was run only to learn more about the failure of another one.

    test: its name
    wrong: the wrong ones of the subject's results, by number
    mistakes: yields what may have been done wrong with the result of this number
    values: the arguments that the subject was called with, by name
    """

    test: str
    wrong: Mapping[int, WrongResult]
    mistakes: Callable[[int], Iterable[Mistake]]
    values: Mapping[str, object] = field(default_factory=dict)
    _known: dict[int, dict[tuple, list[Mistake]]] = field(default_factory=dict)
    _verdicts: dict[tuple[int, tuple], bool | None] = field(default_factory=dict)

    @property
    def has_numbers(self) -> bool:
        """Whether a wrong result has numbers, and not only NaN and infinity."""
        return any(wrong.has_numbers for wrong in self.wrong.values())

    def gives(self, number: int, cause: Note) -> bool | None:
        """Return whether this mistake gives the wrong result here, None if that is unclear."""
        key = number, cause.key
        if key not in self._verdicts:
            self._verdicts[key] = self._verdict(number, cause)
        return self._verdicts[key]

    def _verdict(self, number: int, cause: Note) -> bool | None:
        verdicts = set()
        for mistake in self._of(number, cause):
            verdicts.add(self._gives(number, mistake))
            if True in verdicts:
                return True
        return False if verdicts == {False} else None

    def _gives(self, number: int, mistake: Mistake) -> bool | None:
        wrong = self.wrong[number]
        try:
            made = double(mistake.compute().detach().cpu())
        except IMPOSSIBLE:
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


@dataclass(frozen=True)
class Evidence:
    """What other cases say of a result.

    number: of the result
    cases: runs them, when it is first asked for
    named: the causes that were named so far, for other failures of the same subject
    """

    number: int = 0
    cases: Callable[[], Sequence[OtherCase]] = lambda: ()
    named: list[Note] = field(default_factory=list)

    def likeliest_first(self, mistakes: Iterable[Mistake]) -> Iterator[Mistake]:
        """Yield the mistakes that were made elsewhere, and then the others, in their order."""
        named, others = {cause.key for cause in self.named}, []
        for mistake in mistakes if named else ():
            if mistake.cause.key in named:
                yield mistake
            else:
                others.append(mistake)
        yield from others if named else mistakes

    def weigh(self, cause: Note) -> Weight:
        """Return what the other cases that fail say of a mistake.

        Those that pass say nothing, since a mistake may need what they do not have, such as a last
        tile that is not full.
        """
        failing = [case for case in self.cases() if self.number in case.wrong]
        verdicts = [case.gives(self.number, cause) for case in failing]
        return Weight(verdicts.count(True), verdicts.count(False))

    def shows(self, cause: Note, causes_of: Callable[[WrongResult], Iterable[Note]]) -> bool:
        """Return whether half of the other cases that fail suggest this cause, or none fails."""
        failing = [case.wrong[self.number] for case in self.cases() if self.number in case.wrong]
        alike = [cause.key in [it.key for it in causes_of(wrong)] for wrong in failing]
        return 2 * sum(alike) >= len(alike)


NO_EVIDENCE = Evidence()
