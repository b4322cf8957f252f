"""`--results`: a class at once, each puzzle in a process of its own, and only what is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from course import paths
from course.page import report as pages
from course.plugin import batch

SWISH = "01_pointwise/swish"
PEOPLE = {
    "ada": (paths.SOLUTIONS / f"{SWISH}.py").read_text(),
    "bob": "def swish(x):\n    return x\n",
    "eve": "import os\n\n\ndef swish(x):\n    os._exit(3)\n",
}
PRINTS = """
import os


def swish(x):
    for descriptor in range(1, 20):
        try:
            for _ in range(400):
                os.write(descriptor, b"x" * 2**20)
        except OSError:
            pass
    return x
"""


@pytest.mark.proof
def test_a_class(tmp_path):
    for person, source in PEOPLE.items():
        file = tmp_path / "class" / person / f"{SWISH}.py"
        file.parent.mkdir(parents=True)
        file.write_text(source)
    results, found = tmp_path / "results", tmp_path / "found.xml"

    first = grade(tmp_path / "class", results, found)
    assert first.returncode == 1, first.stdout
    assert {"ada  01_pointwise/swish  passed", "bob  01_pointwise/swish  wrong"} <= verdicts(
        first.stdout
    )
    told = {it.get("name"): it for it in suites(found)}
    assert told.keys() == PEOPLE.keys()
    assert failures(told["ada"]) == 0 < failures(told["bob"])
    assert failures(told["eve"]) > 0
    assert {it.get("message") for it in told["bob"].iter("failure")} >= {"no-launch"}

    one = results / "ada" / "01_pointwise-swish.json"
    one.unlink()
    before = (results / "bob" / one.name).stat().st_mtime_ns
    again = grade(tmp_path / "class", results, found)
    assert again.returncode == 1
    assert {it.split()[0] for it in verdicts(again.stdout)} >= {"ada"}
    assert "bob" not in {it.split()[0] for it in verdicts(again.stdout)}
    assert "graded before: " in again.stdout
    assert one.exists()
    assert (results / "bob" / one.name).stat().st_mtime_ns == before

    (tmp_path / "class" / "bob" / f"{SWISH}.py").write_text(PEOPLE["ada"])
    changed = verdicts(grade(tmp_path / "class", results, found).stdout)
    assert "bob  01_pointwise/swish  passed" in changed
    assert "ada" not in {it.split()[0] for it in changed}


def test_what_a_result_is_of():
    """A digest tells the file, what it may import, the judge, and what was asked for."""
    sources = {
        f"{SWISH}.py": b"from helpers import tile",
        "helpers/__init__.py": b"import math as tools",
        "tools.py": b"",
    }
    needed = batch._needed(f"{SWISH}.py", sources | {"01_pointwise/other.py": b""})
    assert needed == sources

    digest = batch._digest("judge", needed)
    assert digest == batch._digest("judge", dict(needed))
    assert digest != batch._digest("another judge", needed)
    for changed in ({f"{SWISH}.py": b""}, {"tools.py": b"1"}):
        assert digest != batch._digest("judge", needed | changed)


def test_the_judge_of_a_result(monkeypatch):
    options = dict.fromkeys(batch.DECIDING)
    judge = batch._digest_of_judge(SimpleNamespace(**options))
    for option in batch.DECIDING:
        assert judge != batch._digest_of_judge(SimpleNamespace(**options | {option: "other"}))
    version = metadata.version
    monkeypatch.setattr(metadata, "version", lambda it: "9" if it == "triton" else version(it))
    assert judge != batch._digest_of_judge(SimpleNamespace(**options))


def test_what_is_being_graded_ends_before_an_interrupted_run_is_reported(tmp_path, monkeypatch):
    told = SWISH, tmp_path / "none.json", (), tmp_path, tmp_path, {}, ""
    people = [batch.Unit(name, tmp_path, *told) for name in ("ada", "bob")]
    ended, both = [], threading.Barrier(2, timeout=60)

    def grade(unit):
        both.wait()
        time.sleep(0.5 * (unit.person == "bob"))
        ended.append(unit.person)
        return 0

    def interrupted(said):
        raise KeyboardInterrupt

    monkeypatch.setattr(batch, "units", lambda *_: people)
    monkeypatch.setattr(batch, "grade", grade)
    monkeypatch.setattr(batch, "_reports", lambda *_: list(ended))
    option = SimpleNamespace(cluster=None, jobs=2, xmlpath=None)
    terminal = SimpleNamespace(line=interrupted)
    config = SimpleNamespace(option=option, get_terminal_writer=lambda: terminal)
    assert batch.run(config, {}) == (["ada", "bob"], pytest.ExitCode.INTERRUPTED)


@pytest.mark.proof
@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process are Linux's")
def test_what_prints_without_end_costs_its_puzzle_only(tmp_path):
    for person, source in {"ada": PEOPLE["ada"], "bob": PRINTS}.items():
        file = tmp_path / "class" / person / f"{SWISH}.py"
        file.parent.mkdir(parents=True)
        file.write_text(source)
    results = tmp_path / "results"
    said = verdicts(grade(tmp_path / "class", results, tmp_path / "found.xml").stdout)
    assert "ada  01_pointwise/swish  passed" in said
    assert "bob  01_pointwise/swish  passed" not in said
    files = {it: it.stat().st_size for it in results.rglob("*")}
    assert max(files.values()) < 2**22, files


def command(folder: Path, results: Path, found: Path) -> list[str]:
    tests = f"puzzles/{Path(SWISH).parent}/test_swish.py"
    told = ["--subject", str(folder), "--results", str(results), "--junitxml", str(found)]
    return [sys.executable, "-m", "pytest", tests, *told, "-p", "no:cacheprovider"]


def process() -> dict:
    """Return how a command's process is to be made."""
    of_pytest = {it: value for it, value in os.environ.items() if not it.startswith("PYTEST_")}
    return {"cwd": paths.ROOT, "env": of_pytest | {"TRITON_INTERPRET": "1"}}


def grade(*files: Path) -> subprocess.CompletedProcess:
    whole = [*command(*files), "--jobs", "2"]
    return subprocess.run(whole, **process(), capture_output=True, text=True, check=False)


def verdicts(printed: str) -> set[str]:
    """What is told of each person's puzzle, without its number."""
    return set(re.findall(r"^\d+ of \d+  (.+)$", printed, re.MULTILINE))


def suites(found: Path) -> list[ElementTree.Element]:
    return list(ElementTree.parse(found).getroot())


def failures(suite: ElementTree.Element) -> int:
    return sum(int(suite.get(name, "0")) for name in ("failures", "errors"))


@pytest.mark.proof
@pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bubblewrap")
def test_a_cell_that_ends_costs_its_puzzle_one_cell(tmp_path):
    file = tmp_path / "eve" / f"{SWISH}.py"
    file.parent.mkdir(parents=True)
    file.write_text(PEOPLE["eve"])
    found = tmp_path / "found.json"
    tests = f"puzzles/{Path(SWISH).parent}/test_swish.py"
    told = ["--subject", str(tmp_path / "eve"), "--sealed", "--json", str(found), "-k", "numerics"]
    whole = [sys.executable, "-m", "pytest", tests, *told, "-p", "no:cacheprovider"]
    subprocess.run(whole, **process(), capture_output=True, check=False)
    (report,) = pages.load(found)
    (puzzle,) = report.graded
    first, *others = puzzle.checks
    assert first.fault["kind"] == "process-ended"
    assert {it.verdict for it in others} == {"not run"}
