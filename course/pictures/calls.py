"""Which calls of a puzzle's tests to draw, and their pictures.

A call is drawn by running it again, apart from the run that is graded, with everything that it
touches recorded.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass

from course.pictures.errors import errors
from course.pictures.order import order
from course.pictures.programs import programs
from course.pictures.reuse import reuse
from course.pictures.scene import Scene
from course.pictures.sectors import sectors
from course.pictures.svg import Picture
from course.pictures.timeline import timeline
from kernelgauge.core.arguments import Arguments
from kernelgauge.core.launch import Launch, blocks_of
from kernelgauge.core.verdict import Verdict, Wrong
from kernelgauge.kernel import MAX_DECOYED_ELEMENTS, is_thorough
from kernelgauge.memory.recording import Recording
from kernelgauge.numerics.compare import Mismatch
from kernelgauge.subject.guarded_call import GuardedCall
from kernelgauge.words import say

# Calls of more elements, or programs, are not drawn: the interpreter is slow.
MAX_ELEMENTS = 2**18
MAX_PROGRAMS = 512
# Of a call that launches more kernels the first are drawn, each once.
MAX_KERNELS = 3
KINDS = (programs, order, reuse, sectors)
# What a picture shows best: so many programs, so many elements.
PROGRAMS = (4, 16)
ELEMENTS = (256, 2**13)
# Where tiles are taken in groups, which shows only if there are more of them.
GROUPED = (24, 144)
# The least part of a tile that is seen.
LEAST_EDGE = 0.1


@dataclass
class Candidate:
    """A call that a test made.

    puzzle: 07_matmul/tiled
    function: what was called
    make: returns it, to be run again
    mismatch: returns where its result was found to be wrong
    """

    puzzle: str
    function: str
    arguments: Arguments
    make: Callable[[], GuardedCall]
    mismatch: Callable[[], Mismatch | None] = lambda: None

    @property
    def elements(self) -> int:
        """The number of elements of its tensors."""
        return sum(tensor.numel() for tensor in self.arguments.tensors.values())

    def __str__(self) -> str:
        return f"{self.function}({self.arguments})"


def legibility(candidate: Candidate) -> list[float]:
    """Return how well a call can be drawn, the less the better; [] if not at all.

    Good is a call of several programs, with a ragged edge, that is small.
    """
    if candidate.elements > MAX_ELEMENTS:
        return []
    launches = _launches(candidate)
    count = max((math.prod(launch.grid) for launch in launches), default=0)
    grouped = any("GROUP" in name for launch in launches for name in launch.constexprs)
    wanted = GROUPED if grouped else PROGRAMS
    if not 0 < count <= MAX_PROGRAMS:
        return []
    sizes = {size for x in candidate.arguments.tensors.values() for size in x.shape}
    blocks = blocks_of(launches)
    block = max(blocks, default=1)
    # Which part of the last tile is beyond the tensor.
    ragged = [size for size in sizes if all(size % each for each in blocks)]
    beyond = [(size, -size % block / block) for size in ragged]
    return [
        _distance(count, *wanted) > 2,
        _distance(candidate.elements, *ELEMENTS) > 4,
        max(sizes, default=0) <= block,
        not any(LEAST_EDGE <= part <= 1 - LEAST_EDGE for _, part in beyond),
        # Of an edge of one row or one lane nothing is seen.
        any(0 < p < LEAST_EDGE or (p > 1 - LEAST_EDGE and n > block) for n, p in beyond),
        not all(x.is_contiguous() for x in candidate.arguments.tensors.values()),
        _distance(count, *wanted),
        candidate.elements,
    ]


def _distance(number: int, low: int, high: int) -> float:
    """Return by which factor a number is out of a range, 1 if it is not."""
    return max(low / max(number, 1), number / high, 1.0)


def _launches(candidate: Candidate) -> list[Launch]:
    """Return what a call launches, without running it where that is possible."""
    for which in ("none", "all"):
        with contextlib.suppress(Verdict):
            return candidate.make().run(programs=which).launches
    return []


def draw(candidate: Candidate) -> list[Picture]:
    """Run a call again and draw it."""
    record = Recording()
    # What is wrong with it has been said.
    with contextlib.suppress(Verdict):
        candidate.make().run(record=record, poison=False)
    scenes = _scenes(candidate, record)
    mismatch = candidate.mismatch()
    pictures = []
    if mismatch is not None and mismatch.mask.numel():
        touches = scenes[-1].touches if scenes else ()
        pictures.append(errors(candidate.puzzle, str(candidate), mismatch, touches))
    for scene in scenes:
        pictures += filter(None, (kind(scene) for kind in KINDS))
    if record.moments:
        pictures += filter(None, [_timeline(candidate)])
    return pictures


def _timeline(candidate: Candidate) -> Picture | None:
    """Draw the first program of a Gluon kernel that fails in an order of the checks, or the last.

    The orders are those of `Kernel.check`, where a case of one name runs in the same ones.
    """
    call = candidate.make()
    again = is_thorough(call.case) and candidate.elements <= MAX_DECOYED_ELEMENTS
    first = ["ascending"] if again else []
    for way in [*first, "shuffled", "reversed"]:
        record, fault = Recording(), ""
        call.restore()
        try:
            call.run(order=way, record=record, poison=False)
        except Wrong as wrong:
            fault = "\n".join(say(it) for it in wrong.fault.said)
            break
    return timeline(candidate.puzzle, str(candidate), record.program, record.moments, fault)


def _scenes(candidate: Candidate, record: Recording) -> list[Scene]:
    """Return the first launch of each kernel, with what it touched."""
    first: dict[str, int] = {}
    for touch in record.touches:
        first.setdefault(record.launches[touch.launch].kernel.__name__, touch.launch)
    return [
        Scene(
            candidate.puzzle,
            str(candidate),
            kernel if len(first) > 1 else "",
            record.launches[number],
            [touch for touch in record.touches if touch.launch == number],
        )
        for kernel, number in list(first.items())[:MAX_KERNELS]
    ]
