"""Sealed runs: nothing that a launcher does reaches the verdict, and the grader survives it."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from course import paths
from course.plugin import ladder
from course.proof import runner
from kernelgauge.core import timeouts
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Wrong
from kernelgauge.sealed import cell, replay, system_calls

try:
    cell.in_force()
    LACKS = ""
except cell.CannotSeal as reason:
    LACKS = str(reason)
pytestmark = [pytest.mark.proof, pytest.mark.skipif(bool(LACKS), reason=LACKS)]

CHEATS = paths.ROOT / "tests" / "cheats"
FILES = sorted([*CHEATS.glob("*.py"), *(CHEATS / "sealed").glob("*.py")])
HEADER = re.compile(
    r"# puzzle: (.+)\n(?:# mode: .+\n# rejected with: (.+)\n)?(?:# sealed: (.*)\n)?"
)


@pytest.fixture
def graded(tmp_path, monkeypatch):
    """Grade a source in a cell. Returns what the first fault says, or ""."""

    def grade(puzzle: str, source: str, limit: float = 30.0, check: str = "numerics") -> str:
        shutil.copyfile(paths.SOLUTIONS / f"{puzzle}.py", tmp_path / "honest.py")
        cases = [c for c in runner.cases_of(puzzle) if ladder.check_of(c.test) == check]
        # A cell has a copy of the folder, which does not change while people are graded.
        replay.stop()
        with runner.graded(puzzle, source, tmp_path):
            for case in cases:
                try:
                    with timeouts.time_limit(limit):
                        case.run()
                except Wrong as wrong:
                    return str(wrong)
        return ""

    monkeypatch.setattr(settings, "sealed", True)
    yield grade
    replay.stop()


# What the cheats of the open mode come to in a cell, where it is not what their headers say.
# HARMLESS: the kernels did the work, and what the cheat changes or reads is not there.
HARMLESS = "harmless"
NOTHING_OF_OURS = "ModuleNotFoundError: No module named"
IN_A_CELL = {
    "array_interface": "ended the process of its cell",
    "deafens_the_audit": "KeyError: 'kernelgauge.subject.audit'",
    "in_place_by_numpy": "ended the process of its cell",
    # What torch writes there has no contents either.
    "in_place_by_torch": "param is wrong in 5000 of 5000 elements",
    "large_scratch": "the result is wrong in 3000 of 3000 elements",
    "raises_its_limits": HARMLESS,
    "reference_by_another_name": "IndexError",
    "results_as_numbers": "uses Tensor.tolist outside a kernel",
    "cached_by_content": "memory that an earlier call returned",
    # Each call has addresses of its own there.
    "cached_by_pointer": HARMLESS,
    "copies_the_solution": NOTHING_OF_OURS,
    "ctypes_memmove": "ended the process of its cell",
    "ctypes_views": "ended the process of its cell",
    "cuda_graph": "RuntimeError",
    "dlpack": "uses Tensor.__dlpack__ outside a kernel",
    **dict.fromkeys((it.stem for it in CHEATS.glob("frames*.py")), HARMLESS),
    "garbage_collector": HARMLESS,
    "lazy_subclass": HARMLESS,
    "patched_allclose": HARMLESS,
    "patched_bytecode": NOTHING_OF_OURS,
    "patched_clock": HARMLESS,
    "patched_comparison": NOTHING_OF_OURS,
    "patched_elapsed_time": HARMLESS,
    "patched_events": HARMLESS,
    "patched_in_the_race": HARMLESS,
    "patched_judge": NOTHING_OF_OURS,
    "patched_patch_finder": NOTHING_OF_OURS,
    "patched_permissions": NOTHING_OF_OURS,
    "patched_tensor": HARMLESS,
    "patched_torch": "the result is wrong in",
    "patched_triton": "launched no Triton kernel",
    "reads_the_solution": NOTHING_OF_OURS,
    "referrers": HARMLESS,
    # What torch would write has no contents there.
    "result_below_the_modes": HARMLESS,
    "runs_the_reference": NOTHING_OF_OURS,
    "runs_the_solution": NOTHING_OF_OURS,
    "second_stream": "RuntimeError",
    "pool_of_threads": "memory that this call did not allocate",
    "falls_back_to_torch": "TypeError: swish_kernel... missing a required argument",
    "thread": "memory that the launcher neither received nor allocated",
    "torch_compile": "uses torch's sigmoid outside a kernel|did not return within",
}


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(it, id=it.stem, marks=[pytest.mark.nightly] * (it.parent == CHEATS))
        for it in FILES
    ],
)
def test_cheat_in_a_cell(file, graded):
    """Each is rejected with the true reason, or harmless; the next subject gets its own verdict."""
    if file.stem == "hangs_in_the_kernel" and not settings.interpreted:
        pytest.skip("a hung GPU ends the process that waits for it")
    if file.stem == "system_calls" and not system_calls.compiled():
        pytest.skip("needs libseccomp")
    source = file.read_text()
    puzzle, in_the_open, sealed = HEADER.match(source).groups()
    expected = IN_A_CELL.get(file.stem, in_the_open) if sealed is None else sealed
    said = graded(puzzle, source, 6.0)
    if expected != HARMLESS:
        assert re.search(expected, said), f'not "{expected}": {said or "passed"}'
    else:
        assert said == ""
    assert graded(puzzle, f"from honest import {puzzle.partition('/')[2]}\n") == ""


def test_the_compiler_reads_what_was_checked(graded):
    source = (CHEATS / "sealed" / "kernel_in_a_decorator.py").read_text()
    assert graded("01_pointwise/swish", source, check="compiles") == ""


def test_a_link_leads_to_no_kernel(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "subjects", tmp_path)
    own, link = tmp_path / "own.py", tmp_path / "link.py"
    own.write_text("")
    link.symlink_to(paths.SOLUTIONS / "01_pointwise" / "swish.py")
    session = object.__new__(replay.Session)
    assert session.place([str(own), 1, "kernel"]) == (str(own), 1, "kernel")
    for file in (link, tmp_path / ".." / "own.py"):
        with pytest.raises(cell.Forged):
            session.place([str(file), 1, "kernel"])


def test_the_copy_of_a_killed_judge_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, young = (tmp_path / f"{cell.COPY}{it}" for it in ("left", "young"))
    for copy in (left, young):
        (copy / "subject").mkdir(parents=True)
    os.utime(left, (0, 0))
    running = cell.Cell(paths.SOLUTIONS)
    os.utime(running._copy.name, (0, 0))
    other = cell.Cell(paths.SOLUTIONS)
    assert {*tmp_path.iterdir()} == {young, *(Path(it._copy.name) for it in (running, other))}
    for it in (running, other):
        it.kill()
    assert {*tmp_path.iterdir()} == {young}
