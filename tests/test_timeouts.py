"""Tests that never end, and processes that die."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import torch

from course import paths, running
from course.paths import ROOT
from course.plugin import given_up, hooks
from kernelgauge import words
from kernelgauge.core import crash_notes, gpus, timeouts
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import NotRun
from kernelgauge.subject import guarded_call
from kernelgauge.words.fault import SHOWN, Call, Cause, Fault, Place, note, revived

FAULT = Fault(
    "process-ended",
    (note("accessed-foreign-memory", reason="an illegal address"),),
    remedy=note("find-it-in-the-interpreter"),
)


def endless(wait: float = 0.0):
    while True:
        try:
            time.sleep(wait) if wait else sum(range(1000))
        except Exception:
            pass


by_processor_time = pytest.mark.skipif(
    not settings.interpreted, reason="with a GPU, limits are those of the clock"
)


@by_processor_time
def test_endless_loop_is_interrupted_though_it_swallows_exceptions(monkeypatch):
    # Other processes may leave this one little of the processor.
    monkeypatch.setattr(timeouts, "PATIENCE", 100)
    begun = time.process_time()
    limit = timeouts.time_limit(0.2)
    told = r"not return within 0\.2 s of processor"
    with pytest.raises(timeouts.Overrun, match=told) as found, limit:
        endless()
    assert found.value.fault.kind == "endless"
    assert 0.1 < time.process_time() - begun < 1


def test_a_limit_within_a_suspended_one_does_not_stay():
    with timeouts.time_limit(1000):
        with timeouts.no_time_limit(), timeouts.time_limit(1):
            pass
        assert timeouts.seconds_left() > 900


@by_processor_time
def test_what_puts_things_back_is_not_interrupted_again(monkeypatch):
    monkeypatch.setattr(timeouts, "PATIENCE", 100)
    put_back = []

    def launcher():
        try:
            endless()
        finally:
            end = time.process_time() + 0.3
            while time.process_time() < end:
                pass
            put_back.append(True)

    limit = timeouts.time_limit(0.2)
    with pytest.raises(timeouts.Overrun), limit:
        launcher()
    assert put_back


@by_processor_time
@pytest.mark.parametrize(
    ("body", "said"),
    [("while True:\n        pass", True), ("return f(n - 1) + f(n - 2) if n else f(90)", False)],
    ids=["loop", "no loop"],
)
def test_loops_are_asked_for_where_there_is_one(body, said, tmp_path, monkeypatch):
    monkeypatch.setattr(timeouts, "PATIENCE", 100)
    path = tmp_path / "subject.py"
    path.write_text(f"def f(n):\n    {body}\n")
    monkeypatch.setattr(timeouts, "graded_place", lambda trace: Place(str(path), 2))
    with pytest.raises(timeouts.Overrun) as found, timeouts.time_limit(0.1):
        endless()
    assert ("does every loop end?" in words.message(found.value.fault)) is said
    assert "--time-limit" in words.message(found.value.fault)


@by_processor_time
def test_waiting_forever_is_interrupted_later():
    limit = timeouts.time_limit(0.1)
    with pytest.raises(timeouts.Overrun, match=r"not return within 0\.4 s\n"), limit:
        endless(0.05)


@by_processor_time
def test_a_busy_machine_is_not_held_against_the_body():
    with timeouts.time_limit(0.2):
        time.sleep(0.4)


@by_processor_time
def test_one_step_may_take_a_third_of_the_limit(monkeypatch):
    monkeypatch.setattr(timeouts, "PATIENCE", 100)
    begun = time.process_time()
    told, limit = r"not return within 0\.3 s of processor", timeouts.time_limit(0.9)
    with pytest.raises(timeouts.Overrun, match=told), limit, timeouts.steps():
        second_step()
    assert 0.4 < time.process_time() - begun < 0.8


@by_processor_time
def test_many_steps_have_the_whole_limit_and_the_judge_too(monkeypatch):
    monkeypatch.setattr(timeouts, "PATIENCE", 100)
    with timeouts.time_limit(0.9):
        with timeouts.steps():
            for _ in range(3):
                timeouts.next_step()
                work(0.15)
            with timeouts.steps():
                work(0.01)
            work(0.1)
        # After the call no step runs.
        timeouts.next_step()
        work(0.1)
    limit = timeouts.time_limit(0.6)
    with pytest.raises(timeouts.Overrun, match=r"within 0\.6 s of"), limit, timeouts.steps():
        launch_for_ever()


def second_step() -> None:
    work(0.2)
    timeouts.next_step()
    endless()


def launch_for_ever() -> None:
    while True:
        timeouts.next_step()
        work(0.01)


def work(seconds: float) -> None:
    begun = time.process_time()
    while time.process_time() - begun < seconds:
        sum(range(1000))


def test_a_gpu_is_waited_for_by_the_clock(monkeypatch):
    monkeypatch.setattr(settings, "interpreted", False)
    limit = timeouts.time_limit(0.2)
    with pytest.raises(timeouts.Overrun, match=r"not return within 0\.2 s\n"), limit:
        endless(0.05)


def test_limit_ends_with_its_body():
    with timeouts.time_limit(0.05):
        pass
    time.sleep(0.3)


def test_no_limit():
    with timeouts.time_limit(0):
        time.sleep(0.05)


def test_lifted_limit():
    with timeouts.time_limit(0.1):
        timeouts.lift_time_limit()
        time.sleep(0.5)


def test_what_cannot_be_interrupted_is_ended():
    """A loop in C that ignores signals, like a hung call of a library."""
    code = """
import kernelgauge.core.timeouts as f
f.GRACE = 0.2
with f.time_limit(0.2):
    sum(range(10**12))
"""
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 1
    assert b"Timeout" in done.stderr
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    ("log", "kind", "sentence"),
    [
        ("", "process-ended", "swish.py: crashed the process"),
        (
            json.dumps(FAULT.plain()) + "\n",
            "process-ended",
            "swish.py: the kernel accessed memory that does not belong to it (an illegal address)\n"
            "hint: ",
        ),
        (
            "Fatal Python error: Segmentation fault\n",
            "process-ended",
            "crashed the process: Segmentation fault",
        ),
        (
            "Timeout (0:00:05)!\n"
            f'  File "{ROOT}/kernelgauge/subject/guarded_call.py", line 5 in run\n'
            f'  File "{ROOT}/puzzles/01_pointwise/fma.py", line 7 in fma\n',
            "endless",
            "puzzles/01_pointwise/fma.py:7  did not return in time and could not be interrupted",
        ),
    ],
    ids=["nothing", "dead_gpu", "signal", "timeout"],
)
def test_crash_log_says_why_a_worker_died(log, kind, sentence, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(settings, "subjects", paths.PUZZLES)
    (tmp_path / "gw0").write_text(log)
    fault = crash_notes.describe_crash(tmp_path / "gw0", tmp_path / "swish.py")
    assert fault.kind == kind
    assert sentence in words.message(fault)


def test_a_fault_survives_json():
    place = Place("/a.py", 7, source="tl.load(p)", callers=(Place("/a.py", 3),))
    cause = Cause(note("a", of=note("b", sizes=[3, 4])), SHOWN, 2, 3)
    late = FAULT.but(place=place, call=Call("/a.py", "f"), program=(1, 0, 0), cause=cause)
    plain = FAULT.but(instead=late).plain()
    again = revived(json.loads(json.dumps(plain)))
    assert json.dumps(again.plain()) == json.dumps(plain)
    assert again.instead.place == place
    assert again.instead.program == (1, 0, 0)
    assert again.instead.cause.note.key == cause.note.key


def test_a_puzzle_that_is_given_up_is_known_to_all_workers(monkeypatch, tmp_path):
    monkeypatch.setattr(given_up, "_given_up", {})
    monkeypatch.setattr(given_up, "_folder", None)
    given_up.add("a/b", "endless", "test_masks[x y]", tmp_path)
    monkeypatch.setattr(given_up, "_given_up", {})
    assert not given_up.why("a/b")
    given_up.share(tmp_path)
    assert given_up.why("a/b") == "did not return within the time limit in test_masks[x y]"


def test_sending_to_a_dead_worker_does_not_end_the_run(request):
    def sendcommand(name, **arguments):
        raise OSError("cannot send (already closed?)")

    config = SimpleNamespace(stash=pytest.Stash(), add_cleanup=request.addfinalizer)
    node = SimpleNamespace(config=config, workerinput={}, sendcommand=sendcommand)
    hooks.pytest_configure_node(node)
    node.sendcommand("runtests", indices=[1, 2])


def test_what_was_not_run_has_no_times_of_the_test_before(monkeypatch):
    monkeypatch.setattr(given_up, "why", lambda puzzle: "did not return")
    running.current().races.append(None)
    item = SimpleNamespace(path=paths.PUZZLES / "01_pointwise" / "test_swish.py", nodeid="another")
    with pytest.raises(NotRun):
        next(hooks.pytest_runtest_call(item))
    assert not running.current().races


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("an illegal memory access was encountered", "accessed-foreign-memory"),
        ("misaligned address", "accessed-foreign-memory"),
        ("unspecified launch failure", "failed-on-the-gpu"),
    ],
)
def test_what_a_broken_context_says_of_memory(monkeypatch, error, said):
    def synchronize():
        raise RuntimeError(f"CUDA error: {error}\nCompile with TORCH_USE_CUDA_DSA")

    left = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(gpus, "synchronize", synchronize)
    monkeypatch.setattr(crash_notes, "end_worker", left.append)
    guarded_call._end_worker_if_context_is_dead(RuntimeError(f"CUDA error: {error}\nCompile"))
    assert [it.id for it in left[0].said] == [said]
    assert error in words.message(left[0])
