"""A wrong result, and the comparisons with it that the detectors of symptoms make."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

import torch

from kernelgauge.core.dtypes import double, rounds, wide
from kernelgauge.diagnosis.source import EXPONENTIALS, SHIFTS, UNKNOWN, Source
from kernelgauge.memory.nonfinite import Origin
from kernelgauge.memory.watch import NAMES
from kernelgauge.numerics.compare import Mismatch
from kernelgauge.words.fault import OWN, Note, note

HALF = (torch.float16, torch.bfloat16)
# A pattern in fewer wrong elements than this means nothing.
MIN_WRONG = 4
# And so many elements that are nearly all the same number do not tell mistakes apart.
MIN_VARIED = 16
# Of so many wrong elements most alternatives differ already.
MAX_SAMPLED = 128


@dataclass(frozen=True)
class Symptom:
    """A pattern in a wrong result and its usual cause.

    pattern: a clause that holds for the result; None where the source shows the cause
    cause: what usually produces that pattern, as a clause or a noun phrase
    strong: the pattern explains the wrong elements by itself, so its cause is preferred to the one
        suggested by where they are
    """

    pattern: Note | None
    cause: Note
    strong: bool = True


@dataclass(frozen=True)
class Mistake:
    """A mistake that may have been made, and the result it would give.

    cause: the mistake, as a clause
    compute: returns that result in float64; may raise where the mistake is impossible
    given: how the reference is made to make it, where the cause does not say that already
    changes_nothing: whether this call is right with it. Where the call is wrong it contradicts
        that mistake, which only other cases can suggest
    is_computed: whether the result exists already, and is held until it was compared
    """

    cause: Note
    compute: Callable[[], torch.Tensor]
    given: Note | None = None
    changes_nothing: bool = False
    is_computed: bool = False


class WrongResult:
    """A wrong result and all that is known about it, on the CPU and in float64 or complex128.

    name: of the result, that of an input if it is stored there
    got, truth: the result and what it should be
    wrong, allowed: which elements are wrong, and the error allowed in each
    worst, dtype, exact, drift: as in Mismatch
    inputs: the arguments by name; integers stay integers
    narrow_inputs: whether some have 16 bits
    anything: masked lanes may have held anything, because some load had no `other`
    source: what is known about the learner's code
    rounded: the formats that its kernels rounded to, as in memory.watch; None if that is not known
    origin: what made NaN or infinity, if that is known
    """

    def __init__(
        self,
        got: torch.Tensor,
        truth: torch.Tensor,
        mismatch: Mismatch,
        inputs: Mapping[str, torch.Tensor] | None = None,
        anything: bool = True,
        source: Source = UNKNOWN,
        rounded: AbstractSet[str] | None = None,
        origin: Origin | None = None,
    ) -> None:
        self.name = mismatch.name
        self.got = double(got.detach().cpu())
        self.truth = double(truth.detach().cpu())
        self.wrong = mismatch.mask.cpu()
        self.allowed = mismatch.allowed.cpu()
        self.worst = mismatch.worst
        self.dtype = mismatch.dtype
        self.exact = mismatch.exact
        self.drift = mismatch.drift
        self.narrow_inputs = any(it.dtype in HALF for it in (inputs or {}).values())
        self.inputs = {name: wide(value.detach().cpu()) for name, value in (inputs or {}).items()}
        self.anything = anything
        self.source = source
        self.rounded = None if rounded is None else frozenset(rounded)
        self.origin = origin

    @property
    def exponentials(self) -> bool:
        """Whether the kernels may compute exponentials."""
        return self.source.uses(EXPONENTIALS, otherwise=True)

    @property
    def shifted(self) -> bool:
        """Whether the code seems to subtract something before it computes exponentials."""
        return self.source.uses(SHIFTS, otherwise=False)

    def rounds_to(self, formats: AbstractSet[str]) -> bool:
        """Return whether kernels rounded to one of these formats, also where that is not known."""
        return self.rounded is None or not formats.isdisjoint(self.rounded)

    @property
    def computes_in_half(self) -> bool:
        """Whether kernels may compute in the result's dtype, and it has 16 bits."""
        return self.dtype in NAMES and self.rounds_to({NAMES[self.dtype]})

    @property
    def hands_on_in_half(self) -> bool:
        """Whether kernels load what they stored in the result's dtype, and it has 16 bits."""
        return self.dtype in NAMES and self.rounds_to({f"scratch {NAMES[self.dtype]}"})

    @property
    def stand_in(self) -> list[Note]:
        """Another cause, to be told beside one: scores that are masked with a finite number."""
        number = self.source.stand_in
        if number is None or not self.exponentials:
            return []
        return [note("masked-with-a-number", number=number)]

    @property
    def eps(self) -> float:
        """The machine epsilon of the result's dtype, 0 for integers."""
        return torch.finfo(self.dtype).eps if rounds(self.dtype) else 0.0

    @property
    def enough(self) -> int:
        """How many elements make a pattern: MIN_WRONG, or fewer in a tiny result."""
        return min(MIN_WRONG, max(2, self.wrong.numel()))

    @property
    def everywhere(self) -> bool:
        """Whether nearly every element is wrong."""
        return bool(self.wrong.double().mean() > 0.9)

    @staticmethod
    def varied(values: torch.Tensor) -> bool:
        """Return whether the values differ enough for a pattern in them to mean something."""
        return values.real.unique().numel() >= MIN_WRONG

    def fits(self, alternative: torch.Tensor, among: torch.Tensor | None = None) -> bool:
        """Return whether nearly all wrong elements equal those of the alternative.

        among: a mask that limits which wrong elements count. Also False if there are too few of
        them, or if the alternative is too close to the truth to tell the two apart.
        """
        among = self.wrong if among is None else self.wrong & among
        got, other, truth = self.got[among], alternative[among], self.truth[among]
        if len(got) < self.enough:
            return False
        slack = torch.zeros_like(self.allowed[among])
        if not self.exact:
            slack = 2 * self.allowed[among] + 4 * self.eps * other.abs()
        close = _within(got, other, slack)
        apart = (other - truth).abs() > slack
        return bool(close.double().mean() >= 0.98 and apart.double().mean() >= 0.5)

    @cached_property
    def has_numbers(self) -> bool:
        """Whether some wrong element is a number: NaN and infinity have many causes."""
        return bool(self.got[self.wrong].isfinite().any())

    def tells(self, cause: Note) -> bool:
        """Return whether a mistake can be told by this result.

        If all wrong elements are NaN, where they are may tell a mistake of this puzzle alone.
        """
        return self.has_numbers or (cause.id.startswith(OWN) and self._is_wrong_by_nan)

    def is_made_by(self, alternative: torch.Tensor) -> bool:
        """Return whether the whole result, right elements included, is clearly this one.

        Of a result that is wrong in NaN and infinity alone that is no more than a possibility.
        """
        if alternative.shape != self.truth.shape:
            return False
        got = self.got
        # Where 0 and -0 differ, no value tells one mistake from another.
        if not got[self.wrong].any() and not self.truth[self.wrong].any():
            return False
        if not self._may_be_made_by(alternative):
            return False
        other = alternative if rounds(self.dtype) else alternative.round()
        other = other.to(self.dtype).to(got.dtype)
        # The same number everywhere has many causes.
        if (other == other.flatten()[0]).all() and (other.numel() > 1 or not other.any()):
            return False
        if got.numel() >= MIN_VARIED and self._is_nearly_constant:
            return False
        slack = torch.zeros_like(self.allowed)
        if not self.exact:
            # Rounding errors grow with the values.
            grown = max(1.0, largest_size(other) / (self._truth_size or 1.0))
            slack = 2 * grown * self._leeway + 4 * self.eps * other.abs()
        close = (got == other) | (got.isnan() & other.isnan()) | _within(got, other, slack)
        # Small numbers are all close to one another.
        near = _within(got, other, 0.05 * other.abs())
        telling = self.wrong & (near | (close & ~got.isfinite() & self._is_made_inside))
        few = self.wrong.sum() < MIN_WRONG
        if 2 * telling.sum() < self.wrong.sum() or (few and not self._tells_by_few()):
            return False
        # What differs counts beside what is wrong: much may be right in either case.
        if (~close).sum() > (0.0 if few else 0.05) * self.wrong.sum():
            return False
        # An alternative that is merely close to the truth leaves most of the error unexplained.
        before = (got - self.truth)[self.wrong].abs()
        if not self.exact:
            # Two numbers with few bits may agree by chance once both are rounded.
            other = alternative
        after = (got - other)[self.wrong].abs()
        left = (after / before).nan_to_num(0.0)
        return bool(left.max() < 0.02 if few else left.median() < 0.25)

    @cached_property
    def _is_wrong_by_nan(self) -> bool:
        """Whether all wrong elements are NaN, and some other one is a number."""
        return bool(self.got[self.wrong].isnan().all() and self.got.isfinite().any())

    @cached_property
    def _leeway(self) -> torch.Tensor:
        """The error allowed in each element, and in one that should be no number the largest."""
        finite = self.truth.isfinite() & self.allowed.isfinite()
        return self.allowed.where(finite, largest_size(self.allowed[finite]))

    @cached_property
    def _is_made_inside(self) -> bool:
        """Whether NaN and infinity come from the formula, and not from what was loaded."""
        if self.origin is not None and self.origin.is_loaded:
            return False
        return all(value.isfinite().all() for value in self.inputs.values())

    @cached_property
    def _is_nearly_constant(self) -> bool:
        """Whether nearly all elements are one number, the wrong ones too."""
        wrong = self.got[self.wrong]
        one = wrong.real.median()
        return bool(min((x == one).double().mean() for x in (self.got, wrong)) > 0.95)

    @cached_property
    def _truth_size(self) -> float:
        return largest_size(self.truth)

    @cached_property
    def _sample(self) -> torch.Tensor:
        """Flat indices of some wrong elements that are finite, spread over all of them."""
        wrong = (self.wrong & self.got.isfinite()).flatten().nonzero()[:, 0]
        return wrong[:: max(1, len(wrong) // MAX_SAMPLED)]

    def _may_be_made_by(self, alternative: torch.Tensor) -> bool:
        """Return whether some elements are near enough; most alternatives are told apart by few."""
        if not len(self._sample):
            return True
        got, other = self.got.flatten()[self._sample], alternative.flatten()[self._sample]
        rounding = torch.finfo(self.dtype).tiny if rounds(self.dtype) else 1.0
        near = _within(got, other, 0.1 * other.abs() + rounding)
        return bool(near.double().mean() >= 0.4)

    def clearly_differs(self, alternative: torch.Tensor, factor: float, share: float) -> bool:
        """Return whether more than this share of the result is not this alternative, by far.

        factor: how many times what is allowed is far
        """
        if alternative.shape != self.got.shape:
            return True
        usable = self.got.isfinite() & alternative.isfinite()
        far = (self.got - alternative).abs() > factor * (
            self.allowed + self.eps * alternative.abs()
        )
        return bool(usable.any() and (far & usable).double().mean() > share)

    def _tells_by_few(self) -> bool:
        """Return whether so few numbers are unlikely to agree by chance, as small integers do."""
        if not rounds(self.dtype):
            return bool(self.truth.abs().max() > 1000)
        return bool(self.wrong.sum() > 1) or self.eps < 1e-5

    def typical(self, values: torch.Tensor, among: torch.Tensor) -> complex | None:
        """Return the median of the finite values under a mask, None if there are too few."""
        values = values[among & values.isfinite()]
        if len(values) < self.enough:
            return None
        if values.is_complex():
            return complex(values.real.median(), values.imag.median())
        return float(values.median())

    def alike(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the inputs that have the result's shape, or its last dimension, expanded to it."""
        shape = self.truth.shape
        for name, value in self.inputs.items():
            vector = len(shape) > 1 and value.shape == shape[-1:]
            if value.shape == shape or vector:
                yield name, value.to(self.truth.dtype).expand(shape)

    def index_of_row(self) -> str | None:
        """Return the input in whose rows the result should be the index of the largest value."""
        if rounds(self.dtype) or self.truth.dim() != 1:
            return None
        for name, value in self.inputs.items():
            if value.dim() != 2 or len(value) != len(self.truth):
                continue
            if (self.truth < 0).any() or (self.truth >= value.shape[1]).any():
                continue
            found = value.gather(1, self.truth.long()[:, None])
            if (found.isnan() | (found == value.amax(1, keepdim=True))).all():
                return name
        return None

    def rows_of(self, value: torch.Tensor) -> torch.Tensor | None:
        """Return the largest size in each row of an input, to be broadcast to the result.

        None if the rows of the input do not correspond to those of the result.
        """
        shape = self.truth.shape
        if value.shape == shape:
            return value.abs().amax(-1, keepdim=True) if len(shape) > 1 else value.abs()
        return value.abs().amax(-1) if value.dim() > 1 and value.shape[:-1] == shape else None


def _within(got: torch.Tensor, other: torch.Tensor, slack: torch.Tensor) -> torch.Tensor:
    """Return which numbers are so close: a slack that grows with infinity is no slack."""
    return other.isfinite() & ((got - other).abs() <= slack)


def largest_size(values: torch.Tensor) -> float:
    """Return the largest size among the finite values, 0 if there is none."""
    values = values[values.isfinite()].abs()
    return float(values.max()) if len(values) else 0.0
