"""The commands that a learner types, run as a learner runs them.

Each starts a process of its own, which takes seconds: they are a part of the proof.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import termios
import textwrap
import time
from fnmatch import fnmatch
from pathlib import Path

import pytest

from course.desk.stubs import STUBS
from course.page import report as pages
from course.paths import ROOT, SOLUTIONS
from kernelgauge.core import crash_notes
from kernelgauge.core.settings import settings

pytestmark = [pytest.mark.commands, pytest.mark.proof]

HERE = "puzzles/01_pointwise"
# What an editor's debugger does at a line: start a thread, and evaluate what its user asks for.
DEBUGGER = """
import sys, threading, torch

def stop(frame, event, _):
    if event == "line" and frame.f_code.co_name in ("vector_copy", "vector_copy_kernel"):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        repr([it.sum() for it in frame.f_locals.values() if isinstance(it, torch.Tensor)])
    return stop

def trace(frame, event, _):
    return stop if frame.f_code.co_filename.endswith("01_pointwise/vector_copy.py") else None

sys.settrace(trace)
"""
HEADER = "import torch, triton\nimport triton.language as tl\n"


@pytest.fixture
def grade(pytester, monkeypatch, tmp_path):
    """Run pytest in the repository on a folder of subjects; its output and exit status.

    In the interpreter: a GPU may be shared with other tests here, and traffic is not counted on it.
    """
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    # On a CI host pytest prints each message twice; in colour, other characters.
    on_ci = ("CI", "BUILD_NUMBER", "PY_COLORS", "FORCE_COLOR")
    of_xdist = ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_TESTRUNUID", "PYTEST_XDIST_WORKER_COUNT")
    for variable in ("PYTEST_ADDOPTS", *on_ci, *of_xdist):
        monkeypatch.delenv(variable, raising=False)

    def run(*arguments: str, **subjects: str):
        folder = tmp_path / "subjects" / "01_pointwise"
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in subjects.items():
            (folder / f"{name}.py").write_text(textwrap.dedent(text))
        given = ["--subject", str(folder.parent)] if subjects else []
        cache = ["-o", f"cache_dir={tmp_path / 'cache'}"]
        return pytester.run(sys.executable, "-m", "pytest", *cache, *arguments, *given)

    return run


@pytest.fixture
def clone(monkeypatch, tmp_path):
    """A copy of the repository, without git, to work in; `grade` comes before it."""
    folder = tmp_path / "clone"
    shutil.copytree(
        ROOT, folder, ignore=shutil.ignore_patterns(".*", "tests", "build", "__pycache__")
    )
    monkeypatch.chdir(folder)
    return folder


def solution(name: str) -> str:
    return (SOLUTIONS / "01_pointwise" / f"{name}.py").read_text()


def test_first_chapter_of_a_fresh_clone(grade):
    result = grade(HERE)
    assert result.ret == 1
    result.assert_outcomes(passed=result.parseoutcomes()["passed"])
    text = result.stdout.str()
    assert "Traceback" not in text
    assert "Error" not in text
    for name in ("relu", "vector_add", "fma", "swish", "polynomial", "complex_multiply"):
        rows = [line for line in text.splitlines() if line.startswith(f"01_pointwise/{name}")]
        assert len(rows) == 1
        assert rows[0].split()[1:] == ["not", "started", "edit", f"{HERE}/{name}.py"]
    result.stdout.fnmatch_lines(
        [
            "triton-kata: *torch*triton*numpy*",
            f"01_pointwise/square *gaps left *edit {HERE}/square.py: replace the ... in lines *",
            "1 of 8 solved.*",
            f"Next: {HERE}/square.py",
        ]
    )


def test_without_xdist(grade):
    result = grade("-p", "no:xdist", HERE, "-k", "traffic", swish=solution("swish"))
    result.stdout.fnmatch_lines(["01_pointwise/swish *1/1 *"])


@pytest.mark.parametrize(
    ("folder", "arguments"),
    [
        pytest.param(HERE, ["{test}"], id="of_the_test"),
        pytest.param("puzzles", ["--rootdir={root}/puzzles", "{root}/{here}/{test}"], id="opened"),
    ],
)
def test_editors_start_a_test_from_their_folder(folder, arguments, grade, monkeypatch):
    monkeypatch.chdir(ROOT / folder)
    names = {"root": ROOT, "here": HERE, "test": "test_vector_copy.py::test_traffic"}
    result = grade(*(argument.format(**names) for argument in arguments))
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["01_pointwise/vector_copy *1/1 *"])


@pytest.mark.parametrize(("module", "outcome"), [("pydevd", "passed"), ("tracer", "wrong")])
def test_only_a_debugger_may_look_and_take_its_time(module, outcome, grade, monkeypatch, tmp_path):
    (tmp_path / f"{module}.py").write_text(DEBUGGER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    limit = "1e-9" if outcome == "passed" else "60"
    result = grade("-p", module, f"{HERE}/test_vector_copy.py::test_traffic", "--time-limit", limit)
    assert result.parseoutcomes() == {outcome: 1}
    assert ("uses a thread" in result.stdout.str()) == (outcome == "wrong")


def test_unsolved_stub_fails_in_one_line(grade):
    result = grade(f"{HERE}/test_swish.py", "-q", "-k", "test_traffic")
    assert result.ret == 1
    assert "swish_kernel" not in result.stdout.str()
    outcomes = result.parseoutcomes()
    del outcomes["deselected"]
    assert outcomes == {"unsolved": 1}


def test_gaps_are_named_until_all_are_filled(grade):
    stub = (STUBS / "01_pointwise" / "square.py").read_text()
    result = grade(f"{HERE}/square.py", square=stub.replace("mask = ...", "mask = offs < N"))
    (row,) = (it for it in result.outlines if it.startswith("01_pointwise/square"))
    lines = stub.splitlines()
    first, last = lines.index("    offs = ...") + 1, lines.index("    ...") + 1
    assert row.endswith(f"square.py: replace the ... in lines {first} and {last}")


def test_stepwise_climbs_and_goes_on(grade):
    first = grade("puzzles", "--sw")
    first.stdout.fnmatch_lines(["01_pointwise/vector_copy*", "01_pointwise/square*gaps left*"])
    second = grade("puzzles", "--sw")
    assert "01_pointwise/vector_copy" not in second.stdout.str()
    second.stdout.fnmatch_lines(["01_pointwise/square*gaps left*"])


def test_nothing_of_ours_when_silent(grade):
    assert "- scoreboard -" not in grade(f"{HERE}/test_vector_copy.py", "-qq").stdout.str()


def test_no_scoreboard_when_no_puzzle_was_asked_for(grade):
    result = grade("tests/test_environment.py")
    assert result.ret == 0
    assert "- scoreboard -" not in result.stdout.str()


def test_subject_folder_that_does_not_exist(grade):
    result = grade(HERE, "--subject", "no/such/folder")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --subject no/such/folder: there is no such folder*"])


def test_solutions_and_subject_exclude_each_other(grade):
    result = grade(HERE, "--solutions", "--subject", "puzzles")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --solutions and --subject *"])


@pytest.mark.parametrize("workers", ["0", "2"])
def test_bad_subjects_fail_alone_with_a_message_that_names_the_file(grade, workers, monkeypatch):
    """One subject each: syntax, import, no such function, None, raises, never returns.

    In the mode of this run.
    """
    monkeypatch.setenv("TRITON_INTERPRET", str(int(settings.interpreted)))
    result = grade(
        HERE, "-n", workers, "-k", "test_traffic", "--time-limit", "4",
        vector_copy=solution("vector_copy"),
        vector_add="def vector_add(x, y:\n    pass\n",
        fma="import no_such_module\n",
        swish=HEADER + "def sswish(x): pass\n",
        polynomial=HEADER + "def polynomial(x, coefficients):\n    return 1 / 0\n",
        complex_multiply=HEADER + "def complex_multiply(x, y):\n    while True: pass\n",
    )  # fmt: skip
    text = result.stdout.str()
    for name, message in {
        "vector_add": "vector_add.py:1  SyntaxError:",
        "fma": "fma.py:1  ModuleNotFoundError: No module named 'no_such_module'",
        "swish": "swish.py: defines no function swish",
        "polynomial": "polynomial.py:4  ZeroDivisionError: division by zero",
        # Or within four times as long, by the clock, where others keep the machine busy.
        "complex_multiply": "complex_multiply.py:4  did not return within ",
    }.items():
        assert message in text, name
        assert f"01_pointwise/{name}" in text
    assert not re.search(r"\b(course|kernelgauge)/", text)
    result.stdout.fnmatch_lines(["01_pointwise/vector_copy*1/1*"])


def not_run(text: str) -> int:
    """How many tests pytest's last line counts as not run."""
    return int(re.findall(r"(\d+) not run", text)[-1])


def plugin(folder: Path, monkeypatch, change: str) -> None:
    """Make `-p changes` change the judge so in every process."""
    (folder / "changes.py").write_text(
        f"import kernelgauge.core.timeouts, kernelgauge.speed.gpu\n{change}\n"
    )
    path = [str(ROOT), str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.nightly
def test_a_gpu_that_hangs_ends_its_process_and_says_so(grade, tmp_path, monkeypatch, workers):
    plugin(tmp_path, monkeypatch, "kernelgauge.speed.gpu.is_busy = lambda: True")
    result = grade(
        f"{HERE}/test_swish.py", "-n", workers, "-p", "changes", "--time-limit", "2",
        "-k", "test_masks_offset or test_shapes",
        swish=f"{HEADER}def swish(x):\n    while True: pass\n",
    )  # fmt: skip
    text = result.stdout.str() + result.stderr.str()
    assert re.search(r"did not return within [\d.]+ s", text)
    assert "the kernel still runs: its process was ended" in text
    assert result.ret == (crash_notes.DEAD_GPU if workers == "0" else 1)


def test_one_overrun_is_enough_for_all_workers(grade, tmp_path, monkeypatch):
    """Nothing interrupts this one: its worker is ended, and the new one does not try again."""
    plugin(tmp_path, monkeypatch, "kernelgauge.core.timeouts.GRACE = 0.5")
    result = grade(
        f"{HERE}/test_complex_multiply.py", "-n", "2", "-p", "changes", "--time-limit", "2",
        "-k", "test_shapes or test_masks",
        complex_multiply=f"{HEADER}def complex_multiply(x, y):\n    sum(range(10**12))\n",
    )  # fmt: skip
    text = result.stdout.str()
    assert "complex_multiply.py:4  did not return in time and could not be interrupted" in text
    assert 1 <= result.parseoutcomes()["wrong"] <= 2
    assert not_run(text) >= 4


def test_a_process_that_is_ended_costs_its_own_puzzle(grade):
    """With as many of them as xdist by itself would give a worker up for, and more."""
    names = ("vector_add", "fma", "swish", "polynomial", "complex_multiply")
    functions = {"fma": "fused_multiply_add"}
    crashing = "def {}(*inputs):\n    import os\n    os.kill(os.getpid(), 9)\n"
    subjects = {name: crashing.format(functions.get(name, name)) for name in names}
    result = grade(
        HERE, "-n", "1", "-k", "test_masks or vector_copy",
        vector_copy=solution("vector_copy"), **subjects
    )  # fmt: skip
    text = result.stdout.str()
    for name in names:
        assert text.count(f"/{name}.py: crashed the process") == 1
    assert text.count("what it means: pytest --explain process-ended") >= 1
    assert result.parseoutcomes()["wrong"] == len(names)
    assert not_run(text) >= len(names)
    result.stdout.fnmatch_lines(["01_pointwise/vector_copy*solved*"])


def test_a_wrong_result_is_told_with_its_file(grade):
    text = HEADER + "def vector_copy(x):\n    return torch.empty_like(x)\n"
    result = grade(f"{HERE}/test_vector_copy.py", "-k", "test_traffic", vector_copy=text)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*vector_copy.py: vector_copy: launched no Triton kernel*"])


def test_puzzle_missing_in_the_subject_folder_counts_as_unsolved(grade):
    """In every kind of test, of both levels."""
    result = grade(f"{HERE}/swish.py", "--production", fma=solution("fma"))
    outcomes = result.parseoutcomes()
    assert outcomes.keys() == {"unsolved", "not"}, outcomes
    result.stdout.fnmatch_lines(["01_pointwise/swish*not started*"])


def test_progress_is_kept_and_forgotten_when_the_file_changes(grade, clone):
    """Only the learner's own stubs are remembered."""
    swish = clone / HERE / "swish.py"
    swish.write_text(solution("swish"))
    grade(f"{HERE}/test_vector_copy.py", f"{HERE}/test_swish.py")
    result = grade(f"{HERE}/test_vector_copy.py")
    result.stdout.fnmatch_lines(["On the whole ladder: 2 of * solved."])
    swish.write_text(solution("swish") + "\n")
    result = grade(f"{HERE}/test_vector_copy.py")
    result.stdout.fnmatch_lines(["On the whole ladder: 1 of * solved."])


@pytest.mark.parametrize("only_slows", [False, True])
@pytest.mark.nightly
def test_a_patch_of_triton_without_effect_fails_the_run(grade, only_slows, tmp_path, monkeypatch):
    """Also where -q hides the header, and all tests pass; but not if it only saves time."""
    (tmp_path / "unseen.py").write_text(
        "from kernelgauge.core.complaint import Complaint\n"
        "from kernelgauge.memory import selftest\n"
        f"selftest.failures = lambda: [Complaint('nothing is seen', {only_slows})]\n"
    )
    path = [str(ROOT), str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    command = (f"{HERE}/test_vector_copy.py", "-q", "-k", "test_traffic", "-p", "unseen")
    result = grade(*command)
    assert result.ret == (0 if only_slows else 1)
    result.assert_outcomes(passed=1, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(["nothing is seen"])
    assert grade(*command, "--allow-unrepaired").ret == 0


def test_both_levels_of_what_is_asked_for(grade):
    level = f"{HERE}/production/test_vector_copy.py"
    assert level not in grade(f"{HERE}/vector_copy.py", "--collect-only", "-q").stdout.str()
    assert (
        level
        in grade(f"{HERE}/vector_copy.py", "--production", "--collect-only", "-q").stdout.str()
    )
    assert level in grade(level, "--collect-only", "-q").stdout.str()


def test_a_solved_puzzle_says_so_and_how_far_production_is(grade):
    result = grade(f"{HERE}/vector_copy.py", "-k", "test_traffic or test_masks")
    assert "is solved" not in result.stdout.str()
    result = grade(f"{HERE}/vector_copy.py")
    result.stdout.fnmatch_lines(
        [
            "01_pointwise/vector_copy*solved*production not tried",
            "vector_copy is solved.*Speed was not measured: that takes a GPU.",
            f"Production, what it takes to ship it: pytest {HERE}/test_vector_copy.py --production",
            f"Compare with ours: pytest {HERE}/vector_copy.py --compare",
            f"Next: {HERE}/square.py",
        ]
    )
    # Without a terminal it is plain.
    assert not re.search(r"\x1b|\r| left\]", result.stdout.str())


def said(result) -> str:
    """What a command that must succeed printed, without the blank lines."""
    assert result.ret == 0, result.stderr.str()
    return "\n".join(filter(None, result.outlines))


def test_the_ladder_is_listed_with_progress(grade, clone):
    fresh = said(grade("--list"))
    assert "01 Pointwise: loads, stores, masks, program ids" in fresh
    assert re.search(r"vector_copy +10 min +easy +the worked example.*<- next", fresh)
    assert re.search(r"^07 Matmul: .*\n +matvec +45 min +medium +not started", fresh, re.MULTILINE)
    assert fresh.endswith(f"Next: {HERE}/vector_copy.py")
    grade(f"{HERE}/vector_copy.py")
    (clone / HERE / "fma.py").write_text(solution("fma"))
    (clone / HERE / "polynomial.py").unlink()
    chapter = said(grade(HERE, "--list"))
    for row in (
        "vector_copy +10 min +easy +solved +production not tried",
        "square +15 min +easy +not started +<- next",
        "fma +30 min +easy +changed, and not graded since",
        "swish +30 min +easy +not started",
        "polynomial +45 min +medium +the file is gone: --reset brings the stub back",
    ):
        assert re.search(rf"^    {row}", chapter, re.MULTILINE), row
    assert "1 of 8 solved.\nOn the whole ladder: 1 of" in chapter


def test_a_kind_of_fault_is_explained(grade):
    page = said(grade("--explain", "race"))
    assert "race: programs race for the same element" in page
    assert page.endswith("(puzzles/08_debugging/README.md)")
    assert re.search(r"^register-spills +it spills registers", said(grade("--explain")), re.M)


@pytest.mark.nightly
def test_where_debugging_is_learnt_the_cause_is_named_once_all_hints_are_seen(grade, tmp_path):
    file = "puzzles/08_debugging/momentum_step.py"
    stub = (ROOT / "reference/stubs" / Path(file).relative_to("puzzles")).read_text()
    (tmp_path / "subjects/08_debugging").mkdir(parents=True)
    (tmp_path / "subjects/08_debugging/momentum_step.py").write_text(stub)
    graded = [file, "-k", "single_element", "--subject", str(tmp_path / "subjects")]
    cause, written = "the autotuner has run it", tmp_path / "out.json"
    symptom = grade(*graded, "--json", str(written)).stdout.str()
    assert "param is wrong in 1 of 1 element" in symptom
    assert cause not in symptom
    (report,) = pages.load(written)
    (check,) = report.graded[0].checks
    assert check.withheld
    assert check.fault["cause"]["id"] == "tuned-on-the-tensors"
    for _ in range(3):
        grade(file, "--hint")
    assert cause in grade(*graded).stdout.str()


def test_hints_come_one_at_a_time(grade, clone):
    one = said(grade(f"{HERE}/test_swish.py", "--hint"))
    assert "01_pointwise/swish: hint 1 of 3, a question" in one
    assert "What is exp(100) in float32?" in one
    assert "An infinity in the denominator" not in one
    assert one.endswith(f"The next hint: pytest {HERE}/swish.py --hint")
    assert "hint 2 of 3, the idea" in said(grade(f"{HERE}/swish.py", "--hint"))
    last = said(grade(f"{HERE}/production/test_swish.py::test_speedup", "--hint"))
    assert "hint 3 of 3, the line of thought" in last
    assert re.search(rf"The lesson in full: {HERE}/README.md:\d+, The idea", last)
    after = said(grade(f"{HERE}/swish.py", "--hint"))
    found = re.findall(r"README.md:(\d+), (The idea|the hints of swish)", after)
    places = {section: line for line, section in found}
    lesson = (clone / HERE / "README.md").read_text().splitlines()
    assert lesson[int(places["The idea"]) - 1] == "## The idea"
    assert lesson[int(places["the hints of swish"]) - 1].endswith("swish: a question</summary>")
    # Of a folder the first that is not solved; the worked example has no hints.
    assert "01_pointwise/square: hint 1 of 3" in said(grade(HERE, "--hint"))
    assert "no hints for vector_copy" in said(grade(f"{HERE}/vector_copy.py", "--hint"))


def test_reset_brings_the_stub_back_and_loses_nothing(grade, clone):
    file, stub = (
        clone / HERE / "swish.py",
        (ROOT / "reference/stubs/01_pointwise/swish.py").read_text(),
    )
    file.write_text("mine\n")
    first = said(grade("--reset", f"{HERE}/swish.py"))
    assert file.read_text() == stub
    back = re.search(r"To bring it back: cp (\S+) (\S+)$", first)
    assert (clone / back[1]).read_text() == "mine\n"
    assert back[2] == f"{HERE}/swish.py"
    file.write_text("mine again\n")
    second = said(grade("--reset", f"{HERE}/test_swish.py"))
    assert (clone / back[1]).read_text() == "mine\n"
    assert (clone / re.search(r"cp (\S+)", second)[1]).read_text() == "mine again\n"
    assert "Nothing was changed" in said(grade("--reset", f"{HERE}/swish.py"))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("--hint --list", "--list and --hint do not go together: give one of them"),
        ("--explain rase", "--explain: rase is not a kind of fault: did you mean *race*"),
        ("--explain race --list", "--list and --explain do not go together: give one of them"),
        ("--reset --solutions puzzles/01_pointwise/swish.py", "--reset and --solutions do not*"),
        ("--hint tests/test_inputs.py", "tests/test_inputs.py is not a puzzle: name a*"),
        ("--hint puzzles/01_pointwise/wish.py", "puzzles/01_pointwise/wish.py does not exist: *"),
        ("--reset puzzles/01_pointwise", "--reset takes the file of one puzzle, such as *"),
        ("--reset", "--reset takes the file of one puzzle, such as *"),
        ("--hint -p no:cacheprovider", "--hint remembers in pytest's cache*"),
        ("--watch -n 2", "-n and --watch do not go together: give one of them"),
        ("--watch --compiled", "--compiled and --watch do not go together: give one of them"),
        ("--pictures README.md", "--pictures README.md: cannot write there: File exists"),
        ("--pictures out --hint", "--hint and --pictures do not go together: give one of them"),
        ("--watch tests/test_inputs.py", "tests/test_inputs.py is not a puzzle: name a*"),
        ("--watch puzzles/01_pointwise/test_fma.py::test_masks", "*names one test: choose with -k"),
        ("--page swish.py", "--page swish.py: name a file that ends in .html"),
        ("--page no/such/page.html", "--page no/such/page.html: No such file or directory"),
        ("--page a.html --list", "--list and --page do not go together: give one of them"),
        ("--page a.html --subject docs", "--subject docs: it holds no puzzle's file, such as *"),
        ("--subject puzzles --subject ./puzzles", "--subject: two people are called puzzles, *"),
        ("--show-solution puzzles/01_pointwise/swish.py", "*is not known to be solved. Grade it*"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_one_line(grade, command, message):
    result = grade(*command.split())
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert not result.outlines
    (line,) = filter(None, result.errlines)
    assert fnmatch(line, f"ERROR: {message}")


def test_a_solved_puzzle_is_compared_with_our_solution(grade, clone):
    swish = clone / HERE / "swish.py"
    natural = (ROOT / "tests/alternatives/natural/01_pointwise/swish.py").read_text()
    swish.write_text(natural)
    result = grade(f"{HERE}/swish.py", f"{HERE}/vector_add.py", "--compare")
    result.stdout.fnmatch_lines(
        [
            "*- swish: yours next to ours -*",
            "*yours *ours",
            "traffic of x: float32 (*",
            "    launches * 1 * 1",
            "compiled for sm_90, x: *",
            "    registers a thread *",
            "estimate (docs/estimates.md says how far off) of the time of x: *",
            "    about, on an H200 * ms * ms",
            "    lines of code *",
            "What ours does differently:",
            "    The sigmoid is left to float32*",
            f"To read it: pytest {HERE}/swish.py --show-solution",
            "Not solved, and so not compared: vector_add. What is missing: "
            f"pytest {HERE}/vector_add.py",
        ]
    )
    shown = said(grade(f"{HERE}/swish.py", "--show-solution"))
    assert "def swish_kernel" in shown
    assert shown.startswith("reference/solutions/01_pointwise/swish.py:")
    swish.write_text(natural + "\n")
    refused = grade(f"{HERE}/swish.py", "--show-solution")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert "def swish_kernel" not in refused.stdout.str() + refused.stderr.str()


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "NO_COLOR"])
def test_colours_are_for_those_who_want_them(grade, monkeypatch, variable):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv(variable, "1")
    printed = grade(HERE, "--list").stdout.str()
    assert ("\x1b[" in printed) == (variable == "FORCE_COLOR")


# Pages and classes


@pytest.fixture
def class_of_two(tmp_path):
    """A folder of folders: alice, whose fma is right, and bob, whose fma is wrong."""
    folder = tmp_path / "class"
    for person in ("alice", "bob"):
        (folder / person / "01_pointwise").mkdir(parents=True)
    (folder / "alice/01_pointwise/fma.py").write_text(solution("fma"))
    wrong = solution("fma").replace("tl.fma(x, y, z)", "tl.fma(x, y, -z)")
    assert wrong != solution("fma")
    (folder / "bob/01_pointwise/fma.py").write_text(wrong)
    return folder


def test_a_class_is_graded_one_by_one_and_shown_on_one_page(grade, class_of_two, tmp_path):
    page = tmp_path / "class.html"
    command = (f"{HERE}/fma.py", "-q", "--page", str(page))
    result = grade(*command, "--subject", str(class_of_two))
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "=* alice, 1 of 2 *=",
            "fma is solved. *",
            "=* bob, 2 of 2 *=",
            "_* fma: a wrong result *_",
            "0 of 1 solved. *",
            "=* everybody *=",
            "alice  1 of 1 solved",
            "bob    0 of 1 solved; to fix: fma",
            "Written: *class.html",
        ]
    )
    text = page.read_text()
    assert "A class of 2" in text
    assert text.count("the result is wrong in") > 0
    # One whose work is all right, as data, for somebody's own script.
    data = tmp_path / "alice.json"
    command = (*command[:2], "--json", str(data), "--subject", str(class_of_two / "alice"))
    assert grade(*command).ret == 0
    (alice,) = pages.load(data)
    (fma,) = alice.graded
    assert fma.is_done
    (traffic,) = [it for it in fma.checks if it.kind == "traffic"]
    assert [(it.name, it.measured, it.limit) for it in traffic.figures][:2] == [
        ("launches", 1, 1),
        ("x read", 1.0, 1),
    ]


@pytest.mark.nightly
def test_a_class_is_summed_up_without_a_page_too(grade, class_of_two):
    result = grade(f"{HERE}/fma.py", "-q", "-k", "shapes", "--subject", str(class_of_two))
    assert result.ret == 1
    summary = result.stdout.str().rpartition("everybody")[2]
    assert "alice  0 of 1 solved" in summary
    assert "bob    0 of 1 solved; to fix: fma" in summary
    assert "not graded" not in summary


def test_a_class_in_which_nobody_can_be_graded_ends_at_once(grade, class_of_two):
    result = grade(f"{HERE}/fma.py", "-k", "no_such_test", "--subject", str(class_of_two))
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["=* alice, 1 of 2 *="])
    assert "bob, 2 of 2" not in result.stdout.str()


# Watching


class Terminal:
    """A pytest process with a terminal of its own."""

    def __init__(self, *arguments: str):
        self._ours, theirs = pty.openpty()
        # What a shell starts in the background ignores Ctrl-C, and so does what that starts.
        ignored = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *arguments], stdin=theirs, stdout=theirs, stderr=theirs
        )
        signal.signal(signal.SIGINT, ignored)
        os.close(theirs)
        self._text = ""

    def until(self, words: str, seconds: float = 120.0) -> str:
        """Return what was printed since the last call, up to these words and the prompt."""
        deadline = time.monotonic() + seconds
        while not re.search(f"{words}.*\n", self._text, re.DOTALL):
            assert time.monotonic() < deadline, f"no {words} in {self._text}"
            if select.select([self._ours], [], [], 0.1)[0]:
                self._text += os.read(self._ours, 2**16).decode().replace("\r", "")
        text, self._text = self._text, ""
        return text

    def press(self, keys: str) -> None:
        """Type these keys."""
        os.write(self._ours, keys.encode())

    def modes(self) -> list:
        """Return the modes of the terminal."""
        return termios.tcgetattr(self._ours)

    def end(self) -> None:
        """End the process, if it runs."""
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


def test_a_puzzle_is_graded_whenever_it_is_saved(grade, clone, tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    for name in ("square", "relu"):
        (clone / HERE / f"{name}.py").write_text(solution(name))
    file, right = clone / HERE / "vector_add.py", solution("vector_add")
    wrong = right.replace(", mask=mask", "", 1)
    endless = right.replace("    z = ", "    while True: pass\n    z = ", 1)
    assert right not in (wrong, endless)
    cleared = "\x1b[2J\x1b[H"
    end = r"Watching puzzles/01_pointwise/\w+.py: save it to grade it again.\nKeys: h hint"
    cache = ["-o", f"cache_dir={tmp_path / 'cache'}"]
    terminal = Terminal(HERE, "--watch", "--time-limit", "2", *cache)
    try:
        first = terminal.until(end)
        assert f"{cleared}vector_copy is solved. Measured" in first
        assert f"\n3 of 8 solved. Next: {HERE}/vector_add.py\n" in first
        assert re.search(r"\nvector_add: not started", first)

        file.write_text(wrong)
        graded, _, verdict = terminal.until(end).partition(cleared)
        # Until the next verdict is there, the last one stays.
        assert graded.startswith("grading 01_pointwise/vector_add\n..F")
        assert re.match(r"vector_add: 5 of 13 checks pass \(.*\)\n_+ vector_add: a load", verdict)
        terminal.press("h")
        hint = terminal.until(end)
        assert "vector_add: hint 1 of" in hint
        assert "Try that first. The next hint: press h\n" in hint
        terminal.press("H")
        assert "vector_add: hint 2 of" in terminal.until(end)
        # Other keys mean nothing.
        terminal.press("x\nl")
        assert "<- next" in terminal.until(end)
        terminal.press("p")
        drawn = terminal.until(end)
        assert "vector_add: a load" in drawn
        assert re.search(r"\d pictures of 01_pointwise/vector_add in out, listed", drawn)
        terminal.press("n")
        assert f"{cleared}fma: not started" in terminal.until(end)
        for _ in range(4):
            terminal.press("n")
            terminal.until(end)
        # The same size, within the same second.
        file.write_text(wrong.replace("mask = offs < N", "mask = offs > N"))
        assert "elements that no program stores" in terminal.until(end)
        file.write_text("def vector_add(x, y:\n")
        assert "SyntaxError" in terminal.until(end)
        file.write_text(endless)
        assert "vector_add: it does not finish" in terminal.until(end)
        file.write_text(endless + "\n")
        terminal.until("grading 01_pointwise/vector_add")
        # A save in two steps, while that one is graded.
        file.write_text("")
        file.write_text(wrong)
        again = terminal.until(end)
        assert "a load outside" in again
        assert "does not finish" not in again
        file.unlink()
        assert "waiting for it" in terminal.until(f"{HERE}/vector_add.py is gone")
        (clone / "saved").write_text(right)
        (clone / "saved").rename(file)
        last = terminal.until(end)
        assert "vector_add is solved." in last
        assert "\nfma: not started" in last
        terminal.process.send_signal(signal.SIGINT)
        assert "4 of 8 solved." in terminal.until("The watch has ended")
        assert terminal.process.wait(10) == 0
    finally:
        terminal.end()


def test_a_key_ends_the_watch_and_leaves_the_terminal_as_it_was(grade, tmp_path):
    terminal = Terminal(f"{HERE}/fma.py", "--watch", "-o", f"cache_dir={tmp_path / 'cache'}")
    try:
        before = terminal.modes()
        terminal.until("q quit")
        assert terminal.modes() != before
        terminal.press("q")
        terminal.until("The watch has ended: 0 of 1 solved")
        assert terminal.process.wait(10) == 0
        assert terminal.modes() == before
    finally:
        terminal.end()


@pytest.mark.parametrize("workers", ["0", "2"])
def test_pictures_are_drawn_of_the_failure_that_is_printed_and_of_a_right_kernel(
    grade, tmp_path, workers
):
    forgotten = solution("vector_add").replace(", mask=mask", "")
    folder = tmp_path / "out"
    result = grade(
        f"{HERE}/vector_add.py", f"{HERE}/swish.py", "--pictures", str(folder), "-n", workers,
        vector_add=forgotten, swish=solution("swish"),
    )  # fmt: skip
    assert result.ret == 1
    index = json.loads((folder / "pictures.json").read_text())
    assert list(index) == ["01_pointwise/vector_add", "01_pointwise/swish"]
    count = sum(len(puzzle["pictures"]) for puzzle in index.values())
    result.stdout.fnmatch_lines(
        [f"{count} pictures of 2 puzzles in *out, listed in *pictures.json"]
    )
    for puzzle in index.values():
        assert puzzle["pictures"][0]["kind"] == "programs"
        assert all(set(one) == {"kind", "file", "title", "caption"} for one in puzzle["pictures"])
    wrong, right = (folder / puzzle["pictures"][0]["file"] for puzzle in index.values())
    assert 'class="out"' in wrong.read_text()
    assert 'class="out"' not in right.read_text()
    assert index["01_pointwise/vector_add"]["call"].startswith("vector_add(x: float32 (")
    assert {path.name for path in folder.rglob("*.svg")} == {
        Path(one["file"]).name for puzzle in index.values() for one in puzzle["pictures"]
    }


# Looking at kernels: --compiled and --try


LITERAL = f"""
{HEADER}

@triton.jit
def vector_copy_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N)
    tl.store(y_ptr + offs, x, mask=offs < N)

def vector_copy(x):
    y = torch.empty_like(x)
    N = x.numel()
    vector_copy_kernel[((N + 63) // 64,)](x, y, N, BLOCK=64)
    return y
"""


def test_what_the_compiler_made_is_printed_and_left_in_a_folder(grade, tmp_path):
    """Without colours, for whoever reads it without a terminal; nothing is scored."""
    code = tmp_path / "code"
    result = grade(
        f"{HERE}/vector_copy.py", f"{HERE}/swish.py", "--compiled", str(code),
        "-k", "float16 and not bfloat16", "-n", "2", vector_copy=LITERAL,
    )  # fmt: skip
    assert result.ret == 1
    table = [
        "01_pointwise/vector_copy: vector_copy_kernel, float16",
        "called with x: float16 (5000,)",
        "launched with BLOCK=64",
        "* sm_80 (A100) * sm_90 (H100)",
        "programs a multiprocessor * 16 (64 of 64 warps) *",
        "global loads * 1 x 16-bit *",
        "innermost loops * none *",
        "code in */01_pointwise/vector_copy/float16/vector_copy_kernel.{sm_80,sm_90}.*",
    ]
    result.stdout.fnmatch_lines(
        ["01_pointwise/swish   not started   *swish.py does not exist", *table]
    )
    text = result.stdout.str()
    assert "scoreboard" not in text
    assert "\x1b" not in text
    assert "1 compiled, 1 unsolved" in text
    folder = code / "01_pointwise" / "vector_copy" / "float16"
    assert {path.suffixes[-1] for path in folder.iterdir()} == {".ttir", ".ttgir", ".ptx", ".sass"}
    for path in folder.iterdir():
        assert "x = tl.load(x_ptr + offs, mask=offs < N)" in path.read_text()


@pytest.mark.nightly
def test_other_values_are_tried_and_what_does_not_follow_is_said(grade):
    result = grade(f"{HERE}/vector_copy.py", "--try", "BLOCK=64,32,100", vector_copy=LITERAL)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*01_pointwise/vector_copy, float32, compiled for sm_90 (H100)*",
            "* BLOCK  results  traffic  registers *",
            "now  64     right    1x *",
            "     32     wrong *",
            "     100    fails *does not compile",
            "BLOCK: the grid of vector_copy_kernel does not follow: it was made for 64.*",
            "*BLOCK=100: it does not compile for a GPU*",
            "*BLOCK=32: elements that no program stores*",
        ]
    )
    text = result.stdout.str()
    assert text.count("\n     64 ") == 0
    assert "2 tried" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--try", "BLOK=64"],
            "--try BLOK: no kernel of *.py has this constexpr; there are BLOCK,",
        ),
        (["--try", "BLOCK=64", "--compiled"], "--compiled and --try do not go together: *"),
    ],
)
def test_what_cannot_be_looked_at_is_said_in_a_line(grade, options, message):
    result = grade(f"{HERE}/vector_copy.py", *options, vector_copy=LITERAL)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}*"])
    assert "Traceback" not in result.stderr.str()
