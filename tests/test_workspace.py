"""A folder of the learner's own: what is laid out there, what stays, and pytest in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from course.desk import workspace
from course.paths import ROOT, SOLUTIONS, WORKSPACE
from course.plugin import desk

SWISH = "puzzles/01_pointwise/swish.py"
STUB = '"""01.4  Swish."""\n\ndef swish(x):\n    raise NotImplementedError\n'
CHANGED = STUB.replace("Swish.", "Swish of strided x.")


@pytest.fixture
def home(monkeypatch, tmp_path) -> Path:
    """A small version of this repository."""
    root = tmp_path / "kata"
    for name, text in {
        "reference/stubs/01_pointwise/swish.py": STUB,
        "puzzles/01_pointwise/README.md": "lesson",
        "puzzles/01_pointwise/test_swish.py": "",
        "puzzles/01_pointwise/production/test_swish.py": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setattr(workspace, "ROOT", root)
    monkeypatch.setattr(workspace, "STUBS", root / "reference" / "stubs")
    return root


@pytest.fixture
def mine(home, tmp_path) -> Path:
    """A workspace that was laid out."""
    folder = tmp_path / "mine"
    assert workspace.lay_out(folder).added == ["01_pointwise/swish"]
    return folder


def stub_of(home: Path) -> Path:
    return home / "reference" / "stubs" / "01_pointwise" / "swish.py"


def test_a_second_time_changes_nothing(mine):
    before = {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()}
    assert workspace.lay_out(mine) == workspace.Laid()
    assert {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()} == before


def test_a_new_version_leaves_what_the_learner_wrote_and_says_that_its_spec_changed(home, mine):
    (mine / SWISH).write_text(STUB + "# mine")
    stub_of(home).write_text(CHANGED)
    for _ in range(2):
        assert workspace.lay_out(mine) == workspace.Laid(outdated=[SWISH])
        assert (mine / SWISH).read_text() == STUB + "# mine"
    # Once the learner has taken over the new spec there is nothing to tell.
    (mine / SWISH).write_text(CHANGED + "# mine")
    assert workspace.lay_out(mine) == workspace.Laid()


def test_nothing_is_told_of_a_stub_that_changed_below_its_spec(home, mine):
    (mine / SWISH).write_text("# mine\n" + STUB)
    stub_of(home).write_text(STUB + "# another hint\n")
    assert workspace.lay_out(mine) == workspace.Laid()
    assert (mine / SWISH).read_text() == "# mine\n" + STUB


def test_a_file_with_a_syntax_error_is_compared_too(home, mine):
    (mine / SWISH).write_text("def swish(")
    stub_of(home).write_text(CHANGED)
    assert workspace.lay_out(mine).outdated == [SWISH]


def test_a_new_version_brings_up_to_date_what_nobody_touched(home, mine):
    stub_of(home).write_text(CHANGED)
    (home / "puzzles/01_pointwise/README.md").write_text("longer lesson")
    assert sorted(workspace.lay_out(mine).renewed) == ["puzzles/01_pointwise/README.md", SWISH]
    assert (mine / SWISH).read_text() == CHANGED


def test_new_puzzles_are_added_and_links_to_lost_tests_go(home, mine):
    tests = home / "puzzles" / "01_pointwise"
    stub_of(home).with_name("fma.py").write_text(STUB)
    (tests / "test_swish.py").rename(tests / "test_fma.py")
    assert workspace.lay_out(mine).added == ["01_pointwise/fma"]
    there = mine / "puzzles" / "01_pointwise"
    assert sorted(path.name for path in there.glob("*.py")) == ["fma.py", "swish.py", "test_fma.py"]


def test_a_repository_that_was_moved_is_linked_anew(home, mine, monkeypatch):
    moved = home.rename(home.with_name("elsewhere"))
    monkeypatch.setattr(workspace, "ROOT", moved)
    monkeypatch.setattr(workspace, "STUBS", moved / "reference" / "stubs")
    workspace.lay_out(mine)
    test = mine / "puzzles" / "01_pointwise" / "test_swish.py"
    assert test.resolve() == moved / "puzzles" / "01_pointwise" / "test_swish.py"


def test_a_folder_with_other_files_is_refused(home, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "conftest.py").write_text("")
    with pytest.raises(pytest.UsageError, match="not empty"):
        desk._lay_out(None, tmp_path / "other")
    with pytest.raises(pytest.UsageError, match="outside"):
        desk._lay_out(None, home / "mine")


@pytest.mark.commands
@pytest.mark.proof
def test_pytest_works_there_as_here(tmp_path):
    mine = tmp_path / "mine"
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTEST_ADDOPTS", WORKSPACE) and not name.startswith("PYTEST_XDIST")
    } | {"TRITON_INTERPRET": "1", "NO_COLOR": "1"}

    def run(*arguments, there=mine):
        command = [sys.executable, "-m", "pytest", *map(str, arguments)]
        done = subprocess.run(command, cwd=there, env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    assert run("--workspace", mine, there=ROOT)[0] == 0
    assert re.search(r"\n    vector_add .* not started", run("--list")[1])
    assert "hint 1 of 3" in run(SWISH, "--hint")[1]
    assert "is not known to be solved" in run(SWISH, "--show-solution")[1]
    (mine / SWISH).write_text("import torch\n\ndef swish(x):\n    return x + undefined\n")
    status, said = run(SWISH)
    assert status == 1
    assert f"{SWISH}:4  NameError" in said
    assert f"\nNext: {SWISH}\n" in said
    assert "run this one: pytest puzzles/01_pointwise/test_swish.py -k" in said
    shutil.copy(SOLUTIONS / "01_pointwise" / "swish.py", mine / SWISH)
    assert run("puzzles/01_pointwise/test_swish.py::test_shapes")[0] == 0
    status, said = run(SWISH, "--production", "-n", "2")
    assert status == 0, said
    assert "swish is solved" in said
    assert "On the whole ladder: 1 of" in said
    assert "def swish" in run(SWISH, "--show-solution")[1]
    assert "is the stub again" in run(SWISH, "--reset")[1]
    assert ". is up to date." in run("--workspace", ".")[1]
    same = f"../{ROOT.name}"
    assert (
        f"--workspace {same}: a workspace lies outside" in run("--workspace", same, there=ROOT)[1]
    )
