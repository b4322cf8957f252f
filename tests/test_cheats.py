"""What a dishonest solver could hand in is rejected, each with words that name its fault.

Each file of tests/cheats is a subject. Its first lines say for which puzzle, in which mode it shows
("both", "interpreter", "gpu", or "race" for calls that are timed), and words of the message.
`honest` is the puzzle's solution.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from types import SimpleNamespace

import pytest

import judge.numerics.compare
import judge.subject.guard
from judge import inputs
from judge.core import paths
from judge.core.settings import settings
from judge.core.verdict import Wrong
from judge.plugin import ladder
from judge.proof import runner
from judge.speed import gpu, measure

FOLDER = paths.ROOT / "tests" / "cheats"
CHEATS = sorted(path.stem for path in FOLDER.glob("*.py"))
FIELDS = ("puzzle", "mode", "rejected with")


@pytest.fixture
def handed_in(tmp_path, monkeypatch):
    """Run a numerics case of a puzzle on this source: its numbers, others, and the first again."""

    def grade(puzzle: str, source: str, mode: str = "both") -> None:
        (tmp_path / "honest.py").write_text((paths.SOLUTIONS / f"{puzzle}.py").read_text())
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "honest", raising=False)
        cases = [c for c in runner.cases_of(puzzle) if ladder.check_of(c.test) == "numerics"]
        case = next((c for c in cases if "float32" in c.name), cases[0])
        with runner.graded(puzzle, source, tmp_path):
            if mode == "race":
                runner.module_of(puzzle).puzzle.race(inputs.randn(500), at_least=1.0)
                return
            for seed in ("", "with other numbers", ""):
                case.run(seed)

    for name, stand_in in (
        ("exclusive", contextlib.nullcontext),
        ("measured_limits", lambda: None),
    ):
        monkeypatch.setattr(gpu, name, stand_in)
    monkeypatch.setattr(measure, "race", three_calls)
    return grade


def three_calls(subject, reference, arguments, **options) -> SimpleNamespace:
    """A race in which everybody is fast enough."""
    for _ in range(3):
        subject(*arguments)
    return SimpleNamespace(verdict="passed", summary=lambda: "", columns=dict)


def told(source: str) -> list[str]:
    """What the first lines of a cheat say: puzzle, mode, words."""
    return [
        line.removeprefix(f"# {field}: ")
        for field, line in zip(FIELDS, source.splitlines(), strict=False)
    ]


@pytest.mark.parametrize("cheat", CHEATS)
@pytest.mark.filterwarnings("ignore:Dynamo does not know")
def test_cheat_is_rejected(cheat, handed_in):
    source = (FOLDER / f"{cheat}.py").read_text()
    puzzle, mode, words = told(source)
    if mode == "gpu" and settings.interpreted:
        pytest.skip("takes a GPU")
    if mode == "interpreter" and not settings.interpreted:
        pytest.skip("seen in the interpreter only")
    with pytest.raises(Wrong) as fault:
        handed_in(puzzle, source, mode)
    assert re.search(words, str(fault.value)), f'fails, but not with "{words}": {fault.value}'


@pytest.mark.parametrize("puzzle", ["01_pointwise/swish", "03_reductions/row_sum"])
def test_what_the_cheats_take_for_honest_passes(puzzle, handed_in):
    source = f"from honest import {puzzle.split('/')[1]}\n"
    handed_in(puzzle, source)
    handed_in("01_pointwise/swish", "from honest import swish\n", "race")


@pytest.mark.parametrize("rejections", [1, 2])
@pytest.mark.parametrize(
    "cheat", ["patched_clock", "patched_comparison", "patched_bytecode", "patched_permissions"]
)
def test_what_was_replaced_is_put_back(cheat, rejections, handed_in):
    def relied_on():
        compare = judge.numerics.compare.compare
        return time.perf_counter, compare, compare.__code__, set(judge.subject.guard.FILLED)

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

pytestmark = pytest.mark.proof

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


def test_threads_of_others_are_no_concern(handed_in):
    end = threading.Event()
    other = threading.Thread(target=end.wait)
    other.start()
    try:
        handed_in("01_pointwise/swish", HARMLESS)
    finally:
        end.set()
        other.join()
