"""Find by trial which single edit of a subject's source makes its wrong results right.

What is said is what was run: with other code in one place, every wrong result whose cause is not
known becomes right, and what was right stays so. Where edits in different places do that, none of
them is named.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import triton.language as tl

from kernelgauge.core import timeouts
from kernelgauge.core.work import at_most
from kernelgauge.diagnosis.edits import LIKELY, Doubted, Edit, Kind, edits, reached
from kernelgauge.words.fault import Note

# Seconds of the processor for trials, and for these and what is asked of the other cases.
MAX_SECONDS, MAX_SECONDS_IN_ALL = 3.0, 5.5
# What a trial may take: so many times what the call takes as it is, and so many seconds.
TIMES, LEAST, MOST = 4.0, 0.15, 1.0
MAX_WORK = 15_000.0
# An unusual edit is not named that fewer wrong calls stand for, and none that fewer calls do.
MIN_WRONG, MIN_CALLS = 2, 3
# Larger calls that are right are not kept, to be made again.
MAX_ELEMENTS = 2**16
# Of one file; each keeps the memory of its call.
MAX_RIGHT = 6


@dataclass(eq=False)
class Case:
    """A call that can be made again, with a file in place of the subject's.

    file: the subject's
    functions: those that ran, the kernels first
    elements: how many its results have
    nearly: whether the part of the results that is quick to compute is right then
    right: whether all results are
    """

    file: Path
    functions: Sequence[str]
    elements: int
    nearly: Callable[[Path], bool]
    right: Callable[[Path], bool]


def find(
    wrong: Sequence[Case],
    also: Sequence[Case],
    right: Sequence[Case],
    doubted: Doubted = (),
) -> Note | None:
    """Return the edit that makes these calls right, if there is one place for it.

    wrong: calls that are wrong and have no cause yet
    also: others that are wrong
    right: calls that are right
    doubted: what seems to be accessed in wrong places
    """
    if len(wrong) + len(right) < MIN_CALLS:
        return None
    # A trial has a time limit of its own.
    with tempfile.TemporaryDirectory() as folder, _quietly(), timeouts.no_time_limit():
        return _Search(wrong, also, right, doubted, Path(folder)).run()


class _Search:
    """The trials of one file, and what they show."""

    def __init__(
        self,
        wrong: Sequence[Case],
        also: Sequence[Case],
        right: Sequence[Case],
        doubted: Doubted,
        folder: Path,
    ):
        self.first, *self.others = sorted(wrong, key=lambda it: it.elements)
        self.stay = sorted(right, key=lambda it: it.elements)
        self.also, self.doubted, self.folder = also, doubted, folder
        self.text = self.first.file.read_text(encoding="utf-8")
        self.tried = 0

    def run(self) -> Note | None:
        """Try the edits on the smallest wrong case, and those that help on the others."""
        begun = time.process_time()
        functions = reached(self.text, self.first.functions)
        with _kinds(functions) as kinds:
            if self._tried(self.first.nearly, self.text, MOST) or not kinds:
                return None
        took = time.process_time() - begun
        limit = min(max(TIMES * took, LEAST), MOST)
        until = begun + MAX_SECONDS
        found = []
        for edit in edits(self.text, functions, kinds, self.doubted):
            if time.process_time() > until:
                break
            if self._tried(self.first.nearly, edit.text, limit) and self._tried(
                self.first.right, edit.text, MOST
            ):
                found.append(edit)
        until = begun + MAX_SECONDS_IN_ALL
        confirmed = []
        for number, edit in enumerate(found):
            now = time.process_time()
            enough = now + (until - now) / (len(found) - number)
            if (stay := self._holds(edit, until, enough)) is not None:
                confirmed.append((edit, stay))
        return self._said(confirmed, until)

    def _tried(self, ask: Callable[[Path], bool], text: str, seconds: float) -> bool:
        """Return whether a call is right with this code; not if it fails or takes too long."""
        self.tried += 1
        file = self.folder / str(self.tried) / self.first.file.name
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8")
        try:
            # A step may take a part of a time limit.
            with timeouts.time_limit(seconds / timeouts.STEP), at_most(MAX_WORK):
                return ask(file)
        except Exception:
            return False

    def _holds(self, edit: Edit, until: float, enough: float) -> int | None:
        """Return how many calls an edit was seen to leave right that makes all wrong ones right.

        Of those that are right not all are made again where that takes until `enough`. None stands
        for an edit that does not hold, or of which that is not certain.
        """
        for it in self.others:
            if time.process_time() > until or not self._tried(it.right, edit.text, MOST):
                return None
        stay = 0
        for it in self.stay:
            if time.process_time() > enough:
                break
            if self._tried(it.right, edit.text, MOST):
                stay += 1
            elif self._tried(it.right, self.text, MOST):
                return None
        return stay if len(self.others) + stay + 1 >= MIN_CALLS else None

    def _said(self, confirmed: Sequence[tuple[Edit, int]], until: float) -> Note | None:
        """Return what is said of the likeliest of these edits, each with how many stay right."""
        if not confirmed:
            return None
        best, stay = confirmed[0]
        first, last = best.lines
        if best.rank > LIKELY and len(self.others) + 1 < MIN_WRONG:
            return None
        elsewhere = [it for it, _ in confirmed if it.lines[1] < first or it.lines[0] > last]
        if not all(best.leaves_out and it.leaves_out for it in elsewhere):
            return None
        repaired = len(self.others)
        for it in self.also:
            if time.process_time() > until:
                return None
            repaired += self._tried(it.right, best.text, MOST)
        counts = {"others": repaired, "of": len(self.others) + len(self.also), "stay": stay}
        return replace(best.said, values={**best.said.values, **counts})


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _kinds(functions: Sequence[str]) -> Iterator[dict[tuple[str, str], Kind]]:
    """Yield what kind of value each name of these functions holds when they return."""
    kinds: dict[tuple[str, str], Kind] = {}

    def returned(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_name
        if event == "return" and name in functions:
            for local, value in frame.f_locals.items():
                if (kind := _kind(value)) is not None:
                    kinds[name, local] = kind

    if sys.getprofile():
        # Somebody else looks on, who could not be put back.
        yield kinds
        return
    sys.setprofile(returned)
    try:
        yield kinds
    finally:
        sys.setprofile(None)


def _kind(value: object) -> Kind | None:
    """Return what has to be the same of two values of which one may stand for the other."""
    if isinstance(value, tl.constexpr):
        value = value.value
    if isinstance(value, tl.tensor):
        scalar = value.type.scalar
        sort = "pointer" if scalar.is_ptr() else "float" if scalar.is_floating() else "integer"
        sort = "bool" if scalar.is_int1() else sort
        return sort, tuple(map(int, value.shape))
    if isinstance(value, torch.Tensor):
        return "tensor", value.dim()
    if isinstance(value, bool):
        return "bool", ()
    if isinstance(value, (int, float)):
        return ("integer" if isinstance(value, int) else "float"), ()
    return None
