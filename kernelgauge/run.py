"""What the checks of one test measured, and who looks on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kernelgauge.core.arguments import Arguments
from kernelgauge.core.figure import Figure
from kernelgauge.diagnosis.observations import Right
from kernelgauge.memory.budgets import Traffic
from kernelgauge.speed.result import RaceResult

if TYPE_CHECKING:
    from kernelgauge.kernel import Contest, Kernel
    from kernelgauge.results import ResultCheck

T = TypeVar("T")


class Observer:
    """Looks on while a kernel is checked. Each method does nothing unless it is overridden."""

    def begin(self) -> None:
        """Take notice that a test begins."""

    def on_check(self, kernel: Kernel, arguments: Arguments, results: ResultCheck) -> None:
        """Take notice of a call whose results are about to be compared."""

    def on_traffic(self, kernel: Kernel, arguments: Arguments, traffic: Traffic) -> None:
        """Take notice of what a call moves, before it is compared with its budget."""

    def before_compiling(
        self, kernel: Kernel, arguments: Arguments, targets: Sequence[str]
    ) -> bool:
        """Return whether this took the place of a compile check."""
        return False

    def on_compiled(self, kernel: Kernel, arguments: Arguments, targets: Sequence[str]) -> None:
        """Take notice of a compile check that passed."""

    def instead_of_race(self, kernel: Kernel, arguments: Arguments) -> None:
        """Take notice of a race that cannot be run, because there is no GPU."""

    def on_race(self, kernel: Kernel, contest: Contest) -> None:
        """Take notice of a race, while the GPU is still held."""


class Memory(Protocol):
    """Keeps results of slow functions, by what they were made of."""

    def get(self, key: Hashable, arguments: Arguments, compute: Callable[[], T]) -> T:
        """Return what `compute` returned for these contents of the arguments, or returns now."""


class NoMemory:
    """Keeps nothing."""

    def get(self, key: Hashable, arguments: Arguments, compute: Callable[[], Any]) -> Any:
        """Compute it."""
        return compute()


@dataclass
class Run:
    """What the checks of one test measured.

    case: the test's name. It decides whether a case is called on other contents first, and repeated
    observers: look on
    defers: whether somebody diagnoses the wrong results of several tests together, and is given
        what each of them observed
    memory: keeps what the reference gives, where the same cases are graded again and again
    closely: whether what a wrong result without a cause depends on is looked at, by more calls
    right: the calls that were right
    traffic, races: of each call that was counted or timed
    noted: other figures
    """

    case: str = ""
    observers: Sequence[Observer] = ()
    defers: bool = False
    memory: Memory = field(default_factory=NoMemory)
    closely: bool = True
    right: list[Right] = field(default_factory=list)
    traffic: list[Traffic] = field(default_factory=list)
    races: list[RaceResult] = field(default_factory=list)
    noted: list[Figure] = field(default_factory=list)

    @property
    def figures(self) -> list[Figure]:
        """What was measured, beside what budgets and bars ask for."""
        traffic = [figure for counted in self.traffic for figure in counted.figures]
        return [*traffic, *self.noted, *(it for race in self.races for it in race.figures())]
