"""What is known of a wrong result, and the questions that a detector of symptoms asks of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch

from judge.core.dtypes import double, rounds, wide
from judge.diagnosis.source import EXPONENTIALS, SHIFTS, UNKNOWN, Source
from judge.numerics.compare import Mismatch

# So many wrong elements at least, before a pattern in them means anything.
MIN_WRONG = 4


@dataclass(frozen=True)
class Symptom:
    """look: what holds of the result, as a clause; cause: what that usually comes from.

    look may be empty, where the cause says it all.

    strong: it explains the wrong elements by itself, and so goes before where they are
    """

    look: str
    cause: str
    strong: bool = True


@dataclass(frozen=True)
class Mistake:
    """Something that may have been done wrong, and the result that it would give.

    cause: the mistake, in words
    compute: gives the result in float64; may raise, where the mistake cannot be made
    given: what the reference is given in order to make it, where that is not the cause itself
    """

    cause: str
    compute: Callable[[], torch.Tensor]
    given: str = ""

    @property
    def sentence(self) -> str:
        how = f"with {self.given} the reference" if self.given else "which"
        return f"{self.cause} ({how} gives this very result)"


@dataclass(frozen=True)
class WrongResult:
    """A wrong result on the CPU, in float64 (complex128 if complex).

    wrong: mask of the wrong elements; allowed: what each element may be off by
    anything: masked-off lanes may have held anything, as some load was given no `other`
    dtype: of the result; exact: it was compared bit for bit; drift: as in Mismatch
    inputs: by name, in float64 too; integers stay integers
    source: what is known of the learner's code
    """

    got: torch.Tensor
    truth: torch.Tensor
    wrong: torch.Tensor
    allowed: torch.Tensor
    worst: tuple[int, ...]
    dtype: torch.dtype
    exact: bool
    drift: float | None
    inputs: Mapping[str, torch.Tensor]
    mistakes: Iterable[Mistake]
    anything: bool = True
    source: Source = UNKNOWN

    @classmethod
    def of(
        cls,
        got: torch.Tensor,
        truth: torch.Tensor,
        mismatch: Mismatch,
        inputs: Mapping[str, torch.Tensor] | None = None,
        mistakes: Iterable[Mistake] = (),
        anything: bool = True,
        source: Source = UNKNOWN,
    ) -> WrongResult:
        return cls(
            double(got.detach().cpu()),
            double(truth.detach().cpu()),
            mismatch.mask.cpu(),
            mismatch.allowed.cpu(),
            mismatch.worst,
            mismatch.dtype,
            mismatch.exact,
            mismatch.drift,
            {name: wide(value.detach().cpu()) for name, value in (inputs or {}).items()},
            mistakes,
            anything,
            source,
        )

    @property
    def exponentials(self) -> bool:
        """Whether the kernels may take exponentials."""
        return self.source.uses(EXPONENTIALS, otherwise=True)

    @property
    def shifted(self) -> bool:
        """Whether something seems to be subtracted before exponentials are taken."""
        return self.source.uses(SHIFTS, otherwise=False)

    @property
    def stand_in(self) -> str:
        """What may be said of scores that are masked by a number, for the end of a cause."""
        number = self.source.stand_in
        if number is None or not self.exponentials:
            return ""
        return (
            f"; or scores masked by {number:g}, which win against scores below it: -inf never does"
        )

    @property
    def eps(self) -> float:
        return torch.finfo(self.dtype).eps if rounds(self.dtype) else 0.0

    @property
    def everywhere(self) -> bool:
        return bool(self.wrong.double().mean() > 0.9)

    @staticmethod
    def varied(values: torch.Tensor) -> bool:
        """Whether there are several different values: a pattern in equal ones means nothing."""
        return values.real.unique().numel() >= MIN_WRONG

    def fits(self, alternative: torch.Tensor, among: torch.Tensor | None = None) -> bool:
        """Whether nearly all wrong elements are these instead.

        among: look only at the wrong elements in this mask. False also where there are too few of
        them, or where the alternative is too near the truth to tell.
        """
        among = self.wrong if among is None else self.wrong & among
        got, other, truth = self.got[among], alternative[among], self.truth[among]
        if len(got) < min(MIN_WRONG, max(2, self.wrong.numel())):
            return False
        slack = torch.zeros_like(self.allowed[among])
        if not self.exact:
            slack = 2 * self.allowed[among] + 4 * self.eps * other.abs()
        close = (got - other).abs() <= slack
        apart = (other - truth).abs() > slack
        return bool(close.double().mean() >= 0.98 and apart.double().mean() >= 0.5)

    def is_made_by(self, alternative: torch.Tensor) -> bool:
        """Whether the whole result, the right elements too, is this one, and clearly so."""
        if alternative.shape != self.truth.shape:
            return False
        got = self.got
        other = alternative if rounds(self.dtype) else alternative.round()
        other = other.to(self.dtype).to(got.dtype)
        # One number everywhere has many causes.
        if (other == other.flatten()[0]).all() and (other.numel() > 1 or not other.any()):
            return False
        slack = torch.zeros_like(self.allowed)
        if not self.exact:
            # What rounding costs grows with the values.
            grown = max(1.0, largest_size(other) / (largest_size(self.truth) or 1.0))
            slack = 2 * grown * self.allowed + 4 * self.eps * other.abs()
        close = (got == other) | (got.isnan() & other.isnan()) | ((got - other).abs() <= slack)
        # NaN and infinity come about in many ways, and small numbers are near one another.
        telling = self.wrong & got.isfinite() & ((got - other).abs() <= 0.05 * other.abs())
        few = self.wrong.sum() < MIN_WRONG
        if 2 * telling.sum() < self.wrong.sum() or (few and not self._tells_by_few()):
            return False
        share = 1.0 if few else 0.95
        if min(close.double().mean(), close[self.wrong].double().mean()) < share:
            return False
        # A result that is merely near the truth leaves most of the error unexplained.
        before = (got - self.truth)[self.wrong].abs()
        if not self.exact:
            # Rounded alike, two numbers of few bits agree by chance.
            other = alternative
        after = (got - other)[self.wrong].abs()
        left = (after / before).nan_to_num(0.0)
        return bool(left.max() < 0.02 if few else left.median() < 0.25)

    def _tells_by_few(self) -> bool:
        """Whether so few numbers do not agree by chance, as small whole ones do."""
        if not rounds(self.dtype):
            return bool(self.truth.abs().max() > 1000)
        return self.wrong.sum() > 1 or self.eps < 1e-5

    def typical(self, values: torch.Tensor, among: torch.Tensor) -> complex | None:
        """The median of the finite values in a mask, or None where they are too few."""
        values = values[among & values.isfinite()]
        if len(values) < min(MIN_WRONG, max(2, self.wrong.numel())):
            return None
        if values.is_complex():
            return complex(values.real.median(), values.imag.median())
        return float(values.median())

    def alike(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The inputs of the result's shape, or of its last dimension, expanded to the shape."""
        shape = self.truth.shape
        for name, value in self.inputs.items():
            vector = len(shape) > 1 and value.shape == shape[-1:]
            if value.shape == shape or vector:
                yield name, value.to(self.truth.dtype).expand(shape)

    def wrong_along(self, dim: int) -> torch.Tensor:
        """Whether anything is wrong at each index of a dimension, bool (length,)."""
        return self.wrong.movedim(dim, 0).flatten(1).any(1) if self.wrong.dim() > 1 else self.wrong

    def index_of_row(self) -> str | None:
        """The input whose rows the result may index: one whole number for each of them."""
        if rounds(self.dtype) or self.truth.dim() != 1:
            return None
        for name, value in self.inputs.items():
            if value.dim() == 2 and len(value) == len(self.truth):
                return name
        return None

    def rows_of(self, value: torch.Tensor) -> torch.Tensor | None:
        """The largest size in each row of an input, of a shape that broadcasts to the result."""
        shape = self.truth.shape
        if value.shape == shape:
            return value.abs().amax(-1, keepdim=True) if len(shape) > 1 else value.abs()
        return value.abs().amax(-1) if value.dim() > 1 and value.shape[:-1] == shape else None


def largest_size(values: torch.Tensor) -> float:
    """The largest size among the finite values."""
    values = values[values.isfinite()].abs()
    return float(values.max()) if len(values) else 0.0


def axis_names(dim: int, dims: int) -> tuple[str, str]:
    """What the indices of a dimension are called, one and many."""
    if dims == 1:
        return "element", "elements"
    names = {dims - 1: ("column", "columns"), dims - 2: ("row", "rows")}
    return names.get(dim, (f"dimension-{dim} index", f"dimension-{dim} indices"))
