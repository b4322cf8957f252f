"""A subject that keeps something in its own module begins the next test without it."""

from __future__ import annotations

import pytest

from course import paths
from course.challenge import Challenge
from kernelgauge.subject import loader, state

KEEPS = {
    "a dict": "kept = {}\ndef f(): kept[1] = 2",
    "an attribute of the function": "def f(): f.n = 1",
    "a global": "n = 0\ndef f():\n    global n\n    n += 1",
    "a new global": "def f():\n    global n\n    n = 1",
    "a cache": "import functools\n@functools.cache\ndef g(x): return x\ndef f(): g(3)",
    "an object": "class A: pass\na = A()\ndef f(): a.x = 3",
    "a class": "class A: pass\ndef f(): A.x = 3",
    "a closure": "def make():\n    kept = []\n    return lambda: kept.append(1)\nf = make()",
    "a default": "def f(kept=[]): kept.append(1)",
    "a tensor": "import torch\nx = torch.zeros(3)\ndef f(): x.add_(1)",
}
A_LAUNCH = """
import torch, triton
import triton.language as tl

@triton.jit
def ones_kernel(x_ptr):
    tl.store(x_ptr + tl.arange(0, 4), 1.0)

def f():
    ones_kernel[(1,)](torch.zeros(4, device="cuda" if torch.cuda.is_available() else "cpu"))
"""
KEEPS_NOTHING = {
    "a launch": A_LAUNCH,
    "a sum": "import math\nTABLE = {1: [2]}\ndef f(): return math.fsum(TABLE[1])",
    "an import of its own": "def f():\n    import math\n    return math.pi",
}


@pytest.mark.parametrize(
    ("source", "anew"),
    [(source, True) for source in KEEPS.values()] + [(it, False) for it in KEEPS_NOTHING.values()],
    ids=[*KEEPS, *KEEPS_NOTHING],
)
def test_a_module_that_keeps_something_is_loaded_anew(tmp_path, source, anew):
    path = tmp_path / "subject.py"
    path.write_text(source)
    first = loader.load_subject(path, "f")
    assert loader.load_subject(path, "f") is first
    first()
    state.begin()
    second = loader.load_subject(path, "f")
    assert (second is not first) is anew
    state.begin()
    assert loader.load_subject(path, "f") is second


@pytest.mark.parametrize("name", ["size", "unknown"])
def test_what_a_case_lends_is_not_kept(tmp_path, name):
    path = tmp_path / "subject.py"
    path.write_text(
        "kept = []\ndef size(): return 4\ndef f(): return size()\ndef g(): kept.append(1)"
    )
    names = loader.load_subject(path, "f").__globals__
    with state.lending(names, {name: lambda: 7}):
        assert names[name]() == 7
        assert not state.keeps(path)
        names["g"]()
        assert state.keeps(path)
    assert names["f"]() == 4
    assert "unknown" not in names


def test_a_size_that_a_case_gives_is_not_kept():
    puzzle = Challenge(
        "persistent_softmax", paths.PUZZLES / "17_persistent/test_persistent_softmax.py"
    )
    with puzzle.given(multiprocessors=6):
        assert puzzle.subject.__globals__["multiprocessors"]("cpu") == 6
        assert not state.keeps(puzzle.path)
    assert not state.keeps(puzzle.path)
