"""Dishonest subjects are rejected, each with a message that names its fault.

Each file of tests/cheats is a subject; tests/cheat_table.py says what its first lines give.
`honest` is the puzzle's solution.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time

import pytest

import kernelgauge.numerics.compare
import kernelgauge.subject.guard
from course import inputs, paths
from course.plugin import ladder
from course.proof import runner
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Wrong
from kernelgauge.speed import gpu, measure
from kernelgauge.speed.interval import Interval
from kernelgauge.speed.result import RaceResult
from kernelgauge.subject import tamper
from tests import cheat_table

pytestmark = pytest.mark.proof

FOLDER = cheat_table.CHEATS
CHEATS = sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.fixture
def handed_in(tmp_path, monkeypatch):
    """Grade a source with the numerics cases."""

    def grade(puzzle: str, source: str, mode: str = "both") -> None:
        (tmp_path / "honest.py").write_text((paths.SOLUTIONS / f"{puzzle}.py").read_text())
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "honest", raising=False)
        cases = [c for c in runner.cases_of(puzzle) if ladder.check_of(c.test) == "numerics"]
        with runner.graded(puzzle, source, tmp_path):
            if mode == "race":
                runner.module_of(puzzle).puzzle.race(inputs.randn(500), at_least=1.0)
                return
            for case in cases:
                case.run()

    monkeypatch.setattr(gpu, "exclusive", contextlib.nullcontext)
    monkeypatch.setattr(gpu, "measured_limits", lambda: None)
    monkeypatch.setattr(measure, "race", three_calls)
    return grade


def three_calls(subject, reference, arguments, **options) -> RaceResult:
    """Stand in for a race: every subject is fast enough."""
    for _ in range(3):
        subject(*arguments)
    tie = Interval(1.0, 1.0, 1.0, 1.0, 1.0, settled=True)
    return RaceResult(tie, at_least=0.0, scale=1.0, bound=None, calls=3, seconds=1.0)


@pytest.mark.parametrize("cheat", CHEATS)
@pytest.mark.filterwarnings("ignore:Dynamo does not know")
def test_cheat_is_rejected(cheat, handed_in):
    header = cheat_table.read(FOLDER / f"{cheat}.py")
    mode = header.mode
    if mode == "gpu" and settings.interpreted:
        pytest.skip("needs a GPU")
    if mode == "interpreter" and not settings.interpreted:
        pytest.skip("noticed in the interpreter only")
    with pytest.raises(Wrong) as fault:
        handed_in(header.puzzle, header.path.read_text(), mode)
    said = str(fault.value)
    assert re.search(header.open, said), f'fails, but not with "{header.open}": {said}'


@pytest.mark.parametrize(
    ("puzzle", "mode"),
    [
        ("01_pointwise/swish", "both"),
        ("01_pointwise/swish", "race"),
        ("03_reductions/row_sum", "both"),
    ],
)
def test_honest_subject_passes(puzzle, mode, handed_in):
    handed_in(puzzle, f"from honest import {puzzle.split('/')[1]}\n", mode)


@pytest.mark.parametrize("rejections", [1, 2])
@pytest.mark.parametrize(
    "cheat", ["patched_clock", "patched_comparison", "patched_bytecode", "patched_permissions"]
)
def test_what_was_replaced_is_restored(cheat, rejections, handed_in):
    def relied_on():
        compare = kernelgauge.numerics.compare.compare
        return time.perf_counter, compare, compare.__code__, set(kernelgauge.subject.guard.FILLED)

    before = relied_on()
    source = (FOLDER / f"{cheat}.py").read_text()
    for _ in range(rejections):
        with pytest.raises(Wrong, match="was replaced"):
            handed_in("01_pointwise/swish", source)
    assert relied_on() == before


HARMLESS = """
import collections, dataclasses, enum, functools, inspect, typing, warnings
import torch
from honest import swish as honest

Shape = collections.namedtuple("Shape", "rows cols")
Mode = enum.Enum("Mode", "PLAIN FAST")

class Sizes(typing.NamedTuple):
    N: int = 1

@dataclasses.dataclass
class Tile:
    size: int = 4

@functools.lru_cache
def size(N):
    return collections.namedtuple("Size", "N")(N)

def swish(x: torch.Tensor) -> torch.Tensor:
    inspect.signature(honest)
    torch.cuda.is_available()
    torch.get_default_dtype()
    size(x.numel()), Tile(), Sizes(), Mode.FAST
    return honest(x)
"""


def test_harmless_python_passes(handed_in):
    handed_in("01_pointwise/swish", HARMLESS)


def test_watching_costs_little():
    def seconds() -> float:
        start = time.process_time()
        with tamper.untouched(FOLDER / "thread.py"):
            pass
        return time.process_time() - start

    # The least of many is the time without interruptions: about 2 ms.
    assert min(seconds() for _ in range(50)) < 0.01


def test_threads_of_other_code_are_ignored(handed_in):
    end = threading.Event()
    other = threading.Thread(target=end.wait)
    other.start()
    try:
        handed_in("01_pointwise/swish", HARMLESS)
    finally:
        end.set()
        other.join()
