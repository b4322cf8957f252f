"""What a wrong element depends on, and what by the reference it must and must not depend on.

Both are called again with other ordinary numbers in the inputs, of which parts are then replaced
by others still. Nothing is guessed: an element depends on a part if it changes with it. That it
must is said where the reference changes by far more than is allowed; that it must not, where the
reference stays exactly the same whatever numbers stand there.
"""

from __future__ import annotations

import contextlib
import math
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from kernelgauge.core.dtypes import double, rounds
from kernelgauge.core.tensors import once
from kernelgauge.core.verdict import Verdict
from kernelgauge.core.work import TooMuch, at_most
from kernelgauge.diagnosis.what_if import IMPOSSIBLE
from kernelgauge.numerics.compare import spacing
from kernelgauge.words.fault import Note, note

# How often the subject is called, and how long: units of work, and seconds of the processor.
MAX_CALLS = 64
MAX_WORK = 15_000.0
MAX_SECONDS = 3.0
# Larger inputs are left alone.
MAX_ELEMENTS = 2**20
# What is within what is allowed of two numbers that are this much further apart is wrong for one.
TIMES_ALLOWED, ULPS = 3.0, 4.0
# Where the subject is right with the first other inputs, or the element is 0, so many are tried.
BASES = 6
# Numbers that exceed the median by more than this are not ordinary.
ORDINARY = 8.0
# Parts are named of so many inputs.
MAX_NAMED = 3
# How many times the largest number stands where others may hide a dependence, as in a maximum.
EXTREMES = 256.0, -256.0, 0.0
# What a part is replaced by.
DRAWS = "first", "second", *EXTREMES

# The first and the last index along each dimension.
Box = tuple[tuple[int, int], ...]
Values = Mapping[str, object]


@dataclass(frozen=True)
class Element:
    """A wrong element, and the means to compute it from other inputs.

    name, number, index: of the result, and its place there
    dtype, allowed: the result's dtype, and the error allowed in the element
    got: the wrong value
    tensors: the inputs that hold real or complex numbers
    numbers: the arguments that are such numbers themselves
    reference: returns all results for other values of these, in float64
    subject: returns the element for them
    """

    name: str
    number: int
    index: tuple[int, ...]
    dtype: torch.dtype
    allowed: float
    got: complex
    tensors: Mapping[str, torch.Tensor]
    numbers: Mapping[str, float]
    reference: Callable[[Values], Sequence[torch.Tensor]]
    subject: Callable[[Values], complex]


class _Spent(Exception):
    """No more calls are made."""


def depends(element: Element) -> Note | None:
    """Return what the element depends on wrongly, None where nothing is certain.

    A subject that raises is not asked again, and nothing is said of it.
    """
    if not math.isfinite(abs(element.got)) or not math.isfinite(element.allowed):
        return None
    if sum(it.numel() for it in element.tensors.values()) > MAX_ELEMENTS:
        return None
    try:
        search = _Search(element)
        with at_most(MAX_WORK), contextlib.suppress(_Spent, TooMuch):
            search.run()
    except (Verdict, *IMPOSSIBLE):
        return None
    if not (search.missed or search.seen):
        return None
    return note(
        "depends",
        result=element.name,
        index=list(element.index),
        missed=search.missed[:MAX_NAMED],
        seen=search.seen,
    )


class _Search:
    """The calls that are made, and what they have shown so far.

    missed: the parts of inputs that the element must depend on, and does not; whole ones at the end
    seen: those that it depends on, and must not
    """

    def __init__(self, element: Element):
        self.element = element
        self.missed: list[Note] = []
        self.seen: list[Note] = []
        self._until = time.process_time() + MAX_SECONDS
        self._calls = 0
        self._others: dict[tuple[str, object], torch.Tensor] = {}
        self._pools = {name: _ordinary(tensor) for name, tensor in element.tensors.items()}
        self._base: dict[str, torch.Tensor] = {}
        self._truth = self._got = complex(math.nan)

    def run(self) -> None:
        """Look for parts that the element must depend on, then for others, then more closely."""
        if self._subject({}) != self.element.got or not self._find_base():
            return
        if not all(map(self._is_used, self.element.tensors)):
            # What the reference makes of other inputs, a kernel may take from this one.
            return
        hulls = {name: self._hull(name) for name in self.element.tensors}
        needed = {name: box for name, box in hulls.items() if box}
        rest = {name: box for name, box in needed.items() if not self._misses_all(name, box)}
        for name, value in self.element.numbers.items():
            self._misses_number(name, value)
        self._sees({name: self._outside(name, box) for name, box in hulls.items()})
        for name, box in rest.items():
            self._misses_part(name, box)

    # The calls

    def _references(self, values: Values) -> Sequence[torch.Tensor]:
        if time.process_time() > self._until:
            raise _Spent
        return self.element.reference({**self._base, **values})

    def _reference(self, values: Values) -> complex:
        return self._references(values)[self.element.number][self.element.index].item()

    def _subject(self, values: Values) -> complex:
        self._calls += 1
        if self._calls > MAX_CALLS or time.process_time() > self._until:
            raise _Spent
        return self.element.subject({**self._base, **values})

    def _must(self, values: Values) -> bool:
        """Return whether the reference changes by far."""
        return self._far(self._reference(values), self._truth)

    def _must_with(self, name: str, box: Box) -> bool:
        """Return whether the reference changes by far with a part of an input."""
        return any(self._must(self._with(name, box, draw=it)) for it in DRAWS)

    def _may(self, values: Values) -> bool:
        """Return whether the reference changes at all."""
        return self._reference(values) != self._truth

    def _may_with(self, name: str, box: Box) -> bool:
        """Return whether the reference changes with this part of an input, whatever is there."""
        return any(self._may(self._with(name, box, draw=it)) for it in (DRAWS[0], *EXTREMES))

    def _does(self, values: Values) -> bool:
        """Return whether the subject changes at all."""
        return self._subject(values) != self._got

    def _does_with(self, name: str, box: Box) -> bool:
        """Return whether the subject changes with this part of an input."""
        return self._does(self._with(name, box))

    def _does_by_far(self, values: Values) -> bool:
        return self._far(self._subject(values), self._got)

    def _far(self, one: complex, other: complex) -> bool:
        return math.isfinite(abs(one)) and abs(one - other) > self._least

    @cached_property
    def _least(self) -> float:
        """The least change that is far beyond roundings."""
        if not rounds(self.element.dtype):
            return 0.5
        size = torch.tensor(max(abs(self._truth), abs(self._got)))
        ulp = float(spacing(size, _real(self.element.dtype)))
        return TIMES_ALLOWED * self.element.allowed + ULPS * ulp

    # Other inputs

    def _find_base(self) -> bool:
        """Find ordinary inputs with which the element is wrong too, and not cut off at 0."""
        shown = -1
        for draw in range(BASES):
            base = {name: self._other(name, f"base {draw}") for name in self.element.tensors}
            truth, got = self._reference(base), self._subject(base)
            if not math.isfinite(abs(truth)) or not math.isfinite(abs(got)):
                return False
            is_wrong = abs(got - truth) > TIMES_ALLOWED * self.element.allowed
            shows = is_wrong + (is_wrong and truth != 0 and got != 0)
            if shows > shown:
                shown, best = shows, (base, truth, got)
            if shown == 2:
                break
        self._base, self._truth, self._got = best
        return True

    def _other(self, name: str, draw: str | float) -> torch.Tensor:
        """Return other numbers for an input: the same everywhere if that is what is drawn."""
        if (name, draw) not in self._others:
            tensor, pool = self.element.tensors[name], self._pools[name]
            shape = once(tensor).shape
            if isinstance(draw, str):
                seed = torch.Generator().manual_seed(zlib.crc32(f"{name} {draw}".encode()))
                chosen = pool[torch.randint(len(pool), shape, generator=seed)]
                values = chosen * (0.5 + 0.4 * torch.rand(shape, generator=seed))
            else:
                largest = torch.finfo(_real(tensor.dtype)).max / 4
                size = min(abs(draw) * float(pool.abs().max()), largest)
                values = torch.full(shape, math.copysign(size, draw), dtype=pool.dtype)
            other = values.to(tensor.dtype).expand(tensor.shape).contiguous()
            self._others[name, draw] = other
        return self._others[name, draw]

    def _with(self, name: str, *boxes: Box, draw: str | float = DRAWS[0]) -> Values:
        """Return an input with other numbers in these parts."""
        other, changed = self._other(name, draw), self._base[name].clone()
        for box in boxes:
            part = tuple(slice(first, last + 1) for first, last in box)
            changed[part] = other[part]
        return {name: changed}

    # Which parts matter

    def _whole(self, name: str) -> Box:
        return tuple((0, size - 1) for size in self.element.tensors[name].shape)

    def _dims(self, name: str) -> list[int]:
        """Return the dimensions along which elements differ."""
        tensor = self.element.tensors[name]
        return [d for d in range(tensor.dim()) if tensor.shape[d] > 1 and tensor.stride(d) != 0]

    def _hull(self, name: str) -> Box | None:
        """Return the smallest part outside of which the reference is the same, None for nothing."""
        whole = self._whole(name)
        if not self._may_with(name, whole):
            return None
        hull = whole
        for dim in self._dims(name):
            hull = self._narrowed(name, whole, hull, dim, self._may_with)
        return hull

    def _narrowed(
        self, name: str, around: Box, box: Box, dim: int, changes: Callable[[str, Box], bool]
    ) -> Box:
        """Return the box without what changes nothing at both of its ends along a dimension.

        around: what the part reaches along the other dimensions
        """
        first, last = box[dim]

        def same(start: int, end: int) -> bool:
            return not changes(name, _cut(around, dim, start, end))

        before = _most(lambda count: same(first, first + count - 1), last - first)
        after = _most(lambda count: same(last - count + 1, last), last - first - before)
        return _cut(box, dim, first + before, last - after)

    def _outside(self, name: str, hull: Box | None) -> list[Box]:
        """Return the parts of an input that together are all but the hull."""
        whole = self._whole(name)
        if hull is None:
            return [whole]
        return [
            _cut(whole, dim, *ends)
            for dim, (first, last) in enumerate(hull)
            for ends in ((0, first - 1), (last + 1, whole[dim][1]))
            if ends[0] <= ends[1]
        ]

    def _sees(self, outside: Mapping[str, list[Box]]) -> None:
        """Look for a part that the element depends on, of those that it must not depend on."""
        every: dict[str, object] = {}
        for name, boxes in outside.items():
            every |= self._with(name, *boxes)
        if self._may(every) or not self._does_by_far(every):
            return
        for name, boxes in outside.items():
            if not boxes or not self._does_by_far(self._with(name, *boxes)):
                continue
            for box in boxes:
                if len(boxes) == 1 or self._does_by_far(self._with(name, box)):
                    part = self._closer(name, box)
                    if not self._may_with(name, part):
                        self.seen.append(self._part(name, part))
                        return

    def _is_used(self, name: str) -> bool:
        """Return whether any result of the reference depends on an input."""
        pairs = zip(
            self._references({}), self._references(self._with(name, self._whole(name))), strict=True
        )
        return any(not torch.equal(one, other) for one, other in pairs)

    def _closer(self, name: str, box: Box) -> Box:
        """Return the part of a box that the element depends on, as far as calls are left."""
        part = box
        with contextlib.suppress(_Spent, TooMuch):
            for dim in self._dims(name):
                part = self._narrowed(name, part, part, dim, self._does_with)
            if not self._does_by_far(self._with(name, part)):
                return box
        return part

    def _misses_all(self, name: str, hull: Box) -> bool:
        """Look whether the element depends on nothing of an input that it must depend on."""
        if self._does_with(name, hull):
            return False
        whole = self._whole(name)
        self._miss(name, whole if not self._does_with(name, whole) else hull)
        return True

    def _misses_part(self, name: str, hull: Box) -> None:
        """Look for a part that the element must depend on, and does not."""
        dims = sorted(self._dims(name), key=lambda dim: hull[dim][0] - hull[dim][1])
        for look in (self._ends, self._middles):
            for dim in dims:
                for part in look(name, hull, dim):
                    if self._does_with(name, part):
                        continue
                    if self._miss(name, self._wider(name, hull, part, dim)):
                        return

    def _ends(self, name: str, hull: Box, dim: int) -> Iterator[Box]:
        """Yield the smallest parts at both ends of a dimension on which the reference depends."""
        first, last = hull[dim]
        for at_end in (False, True):
            count = 1
            while count <= last - first:
                start = last - count + 1 if at_end else first
                part = _cut(hull, dim, start, start + count - 1)
                if self._must_with(name, part):
                    yield part
                    break
                count *= 2

    def _middles(self, name: str, hull: Box, dim: int) -> Iterator[Box]:
        """Yield parts between the ends of a dimension on which the reference depends."""
        first, last = hull[dim]
        for parts in (4, 8):
            size = (last - first + 1) // parts
            for start in range(first + size, last - size, max(size, 1)):
                part = _cut(hull, dim, start, start + size - 1)
                if size > 1 and self._must_with(name, part):
                    yield part

    def _wider(self, name: str, hull: Box, part: Box, dim: int) -> Box:
        """Return a part with all beside it, along a dimension, that changes nothing either."""
        (first, last), (start, end) = hull[dim], part[dim]

        def same(start: int, end: int) -> bool:
            return not self._does_with(name, _cut(hull, dim, start, end))

        start -= _most(lambda count: same(start - count, end), start - first)
        end += _most(lambda count: same(start, end + count), last - end)
        return _cut(hull, dim, start, end)

    def _miss(self, name: str, box: Box) -> bool:
        """Take note of a part that must be seen and is not, if other numbers show that as well."""
        if not self._must_with(name, box):
            return False
        if any(self._does(self._with(name, box, draw=draw)) for draw in DRAWS[1:]):
            return False
        part = self._part(name, box)
        at = sum(bool(it.values["ends"]) for it in self.missed)
        self.missed.insert(at if part.values["ends"] else len(self.missed), part)
        return True

    def _misses_number(self, name: str, value: float) -> None:
        """Look whether the element ignores an argument that is a number."""
        for other in (2 * value, value + 0.5):
            if self._must({name: other}) and not self._does({name: other}):
                if not self._does({name: value + 0.25}):
                    self.missed.append(note("part-of-input", tensor=name, ends=[]))
                return

    def _part(self, name: str, box: Box) -> Note:
        """Return how a part is called. Dimensions at the end that it has in full are left out."""
        shape, ends = self.element.tensors[name].shape, [list(it) for it in box]
        while ends and ends[-1] == [0, shape[len(ends) - 1] - 1]:
            ends.pop()
        return note("part-of-input", tensor=name, ends=ends)


def _ordinary(tensor: torch.Tensor) -> torch.Tensor:
    """Return the numbers of an input that are finite, not 0, and not much larger than most."""
    values = double(tensor.detach()).flatten()
    values = values[values.abs().isfinite() & (values != 0)]
    if not len(values):
        return torch.ones(1, dtype=values.dtype)
    return values[values.abs() <= ORDINARY * values.abs().median()]


def is_sorted(tensor: torch.Tensor) -> bool:
    """Return whether the rows of a tensor ascend or descend, as kernels may rely on."""
    if tensor.dim() == 0 or tensor.is_complex():
        return False
    steps = tensor.float().diff()
    return bool(steps.numel() > 1 and steps.any() and ((steps >= 0).all() or (steps <= 0).all()))


def _real(dtype: torch.dtype) -> torch.dtype:
    return dtype.to_real() if dtype.is_complex else dtype


def _cut(box: Box, dim: int, first: int, last: int) -> Box:
    return (*box[:dim], (first, last), *box[dim + 1 :])


def _most(holds: Callable[[int], bool], most: int) -> int:
    """Return the largest count up to `most` for which it holds, if it holds for all below."""
    low, high, step = 0, most, 1
    while low < high:
        if not holds(tried := min(low + step, high)):
            high = tried - 1
            break
        low, step = tried, 2 * step
    while low < high:
        tried = (low + high + 1) // 2
        if holds(tried):
            low = tried
        else:
            high = tried - 1
    return low
