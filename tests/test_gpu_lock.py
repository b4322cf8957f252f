"""Locks on GPUs across processes: a race is alone, nobody starves, and the dead hold nothing."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from course import paths
from course.plugin import hooks
from kernelgauge.core import gpus, timeouts
from kernelgauge.core.verdict import NotMeasured, Wrong
from kernelgauge.speed import gpu, gpu_lock
from tests import faults

ROOT = Path(__file__).resolve().parent.parent

# Processes append each line with one write, so the lines are in the order of the events.
PRELUDE = """
import os, sys, time
from pathlib import Path
from kernelgauge.speed import gpu_lock
gpu_lock.FOLDER = Path(sys.argv[1])
journal = os.open(gpu_lock.FOLDER / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def note(*words):
    os.write(journal, (" ".join(map(str, words)) + "\\n").encode())
"""

MIXED = """
number = int(sys.argv[2])
gpu = "GPU-" + "ab"[number % 2]
for turn in range(6):
    with gpu_lock.share(gpu):
        note(gpu, "use"); time.sleep(0.003); note(gpu, "leave")
        if (turn + number) % 3 == 0:
            with gpu_lock.hold(gpu):
                note(gpu, "race"); time.sleep(0.005); note(gpu, "end")
        note(gpu, "use"); time.sleep(0.002); note(gpu, "leave")
    if (turn + number) % 4 == 0:
        with gpu_lock.hold(gpu):
            note(gpu, "race"); time.sleep(0.002); note(gpu, "end")
"""

# Uses the GPU until three processes do.
TOGETHER = """
with gpu_lock.share("g"):
    note(sys.argv[2], "in")
    while len((gpu_lock.FOLDER / "journal").read_text().splitlines()) < 3:
        time.sleep(0.002)
"""

# Two of these keep the GPU in use without a gap: each waits for the other before it leaves.
RELAY = """
me, other = sys.argv[2], sys.argv[3]
mine = gpu_lock.FOLDER / me
until = time.monotonic() + 5
while time.monotonic() < until and not (gpu_lock.FOLDER / "raced").exists():
    with gpu_lock.share("g"):
        mine.touch()
        note(me, "in")
        for _ in range(50):
            time.sleep(0.002)
            if (gpu_lock.FOLDER / other).exists():
                break
        mine.unlink()
"""

RACE = """
note("race", "waits")
with gpu_lock.hold("g"):
    note("race", "begins")
    (gpu_lock.FOLDER / "raced").touch()
    time.sleep(0.05)
    note("race", "ends")
"""

# Races, is done with its test only as a user of the GPU again, and then takes the next test.
RACER = """
with gpu_lock.share("g"):
    note(sys.argv[2], "in")
    while len((gpu_lock.FOLDER / "journal").read_text().splitlines()) < 3:
        time.sleep(0.002)
    with gpu_lock.hold("g"):
        note(sys.argv[2], "races")
        time.sleep(0.3)
    note(sys.argv[2], "again")
with gpu_lock.share("g"):
    note(sys.argv[2], "next")
"""

LARGE = """
with gpu_lock.share("g"):
    for _ in range(5):
        with gpu_lock.large("g"):
            note("g", "race"); time.sleep(0.01); note("g", "end")
"""

HOLDER = """
with gpu_lock.{kind}("g"):
    note("holder", "in")
    time.sleep(60)
"""

USER = 'with gpu_lock.share("g"): note("user", "in")'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_lock, "FOLDER", tmp_path)
    return tmp_path


def start(folder: Path, script: str, *arguments: object) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PRELUDE + script, str(folder), *map(str, arguments)]
    return subprocess.Popen(command, env=environment)


def start_waiting_race(folder: Path) -> subprocess.Popen:
    """Start a race on a GPU that is in use, and see that it waits."""
    race = start(folder, RACE)
    wait_for(folder, "race", "waits")
    time.sleep(0.1)
    assert race.poll() is None
    return race


def finish(processes: list[subprocess.Popen], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    try:
        for process in processes:
            assert process.wait(timeout=until - time.monotonic()) == 0
    finally:
        for process in processes:
            process.kill()


def journal(folder: Path) -> list[list[str]]:
    path = folder / "journal"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def wait_for(folder: Path, *words: str) -> None:
    until = time.monotonic() + 20
    while list(words) not in journal(folder):
        assert time.monotonic() < until, f"{words} never happened"
        time.sleep(0.005)


def overlaps(lines: list[list[str]]) -> list[str]:
    """Return what happened on a GPU during a race, and races that began while it was in use."""
    users: dict[str, int] = {}
    races: dict[str, int] = {}
    wrong = []
    for name, event in lines:
        if event in ("use", "race") and races.get(name):
            wrong.append(f"{event} on {name} in a race")
        if event == "race" and users.get(name):
            wrong.append(f"race on {name} in use")
        users[name] = users.get(name, 0) + {"use": 1, "leave": -1}.get(event, 0)
        races[name] = races.get(name, 0) + {"race": 1, "end": -1}.get(event, 0)
    return wrong


def test_a_race_is_alone_on_its_gpu(tmp_path):
    finish([start(tmp_path, MIXED, number) for number in range(8)])
    lines = journal(tmp_path)
    assert overlaps(lines) == []
    events = [event for _, event in lines]
    assert events.count("use") == events.count("leave") == 8 * 6 * 2
    assert events.count("race") == events.count("end") == 8 * 2 + 8 * 1.5


def test_overlaps_are_detected():
    assert overlaps([["a", "race"], ["a", "use"]]) == ["use on a in a race"]
    assert overlaps([["a", "use"], ["a", "race"]]) == ["race on a in use"]
    assert overlaps([["a", "use"], ["b", "race"], ["b", "end"], ["b", "use"]]) == []


def test_several_processes_share_a_gpu(tmp_path):
    finish([start(tmp_path, TOGETHER, number) for number in range(3)])


def test_a_race_gets_its_turn_although_users_keep_coming(tmp_path):
    users = [start(tmp_path, RELAY, *pair) for pair in ("xy", "yx", "zx")]
    wait_for(tmp_path, "x", "in")
    wait_for(tmp_path, "y", "in")
    began = time.monotonic()
    finish([start(tmp_path, RACE)])
    assert time.monotonic() - began < 4
    finish(users)


def test_races_that_wait_follow_one_another(tmp_path):
    """If users changed places with them one by one, all would wait for most of the time."""
    finish([start(tmp_path, RACER, number) for number in range(3)])
    events = [event for _, event in journal(tmp_path)]
    assert events[:6] == ["in"] * 3 + ["races"] * 3
    assert events.count("again") == events.count("next") == 3


def test_users_and_races_that_come_later_wait_for_the_races_before_them(tmp_path):
    holder = start(tmp_path, HOLDER.format(kind="share"))
    wait_for(tmp_path, "holder", "in")
    races = [start_waiting_race(tmp_path)]
    user = start(tmp_path, USER)
    races.append(start(tmp_path, RACE))
    while journal(tmp_path).count(["race", "waits"]) < 2:
        time.sleep(0.005)
    time.sleep(0.3)
    holder.kill()
    holder.wait()
    finish([*races, user])
    assert journal(tmp_path)[3:] == [["race", "begins"], ["race", "ends"]] * 2 + [["user", "in"]]


def test_of_those_that_need_much_memory_one_at_a_time_runs(tmp_path):
    finish([start(tmp_path, LARGE, number) for number in range(3)])
    lines = journal(tmp_path)
    assert lines == [["g", "race"], ["g", "end"]] * 15


@pytest.mark.parametrize("kind", ["share", "hold"])
def test_a_process_that_dies_holds_nothing(tmp_path, kind):
    holder = start(tmp_path, HOLDER.format(kind=kind))
    wait_for(tmp_path, "holder", "in")
    race = start_waiting_race(tmp_path)
    holder.send_signal(signal.SIGKILL)
    finish([race])
    holder.wait()


def test_a_race_that_dies_while_it_waits_lets_users_through(tmp_path):
    holder = start(tmp_path, HOLDER.format(kind="share"))
    wait_for(tmp_path, "holder", "in")
    race = start_waiting_race(tmp_path)
    user = start(tmp_path, USER)
    time.sleep(0.3)
    assert ["user", "in"] not in journal(tmp_path)
    race.send_signal(signal.SIGKILL)
    finish([user])
    holder.kill()
    holder.wait()
    race.wait()


def test_after_a_race_the_gpu_is_shared_again(folder):
    with gpu_lock.share("g"):
        with gpu_lock.hold("g"):
            pass
        finish([start(folder, USER)], seconds=10)
        race = start_waiting_race(folder)
    finish([race])


@pytest.mark.usefixtures("folder")
def test_nesting():
    before = dict(gpu_lock._shared)  # on a GPU, this test itself shares one
    with gpu_lock.share("g"), gpu_lock.share("g"), gpu_lock.hold("g"):
        with gpu_lock.share("g"):
            pass
        with pytest.raises(RuntimeError, match="already holds"), gpu_lock.hold("g"):
            pass
        with gpu_lock.hold("another"):
            pass
    assert gpu_lock._shared == before
    assert not gpu_lock._held


def test_an_exception_releases_the_locks(folder):
    for manager in (gpu_lock.share, gpu_lock.hold):
        with pytest.raises(KeyError), manager("g"):
            raise KeyError
    with pytest.raises(KeyError), gpu_lock.share("g"), gpu_lock.hold("g"):
        raise KeyError
    finish([start(folder, RACE)])


def test_workers_are_spread_over_the_gpus(monkeypatch):
    selected = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "set_device", selected.append)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda index: SimpleNamespace(uuid=f"GPU-{index}")
    )
    uuids = [gpu_lock.select_gpu(name) for name in (None, "gw0", "gw1", "gw4", "gw11")]
    assert uuids == [f"GPU-{index}" for index in selected]
    assert selected == [0, 0, 1, 1, 2]


@pytest.fixture
def emptied(monkeypatch) -> list[dict]:
    """Stand in for a GPU. Returns the locks that were held each time torch's cache was emptied."""
    held: list[dict] = []
    monkeypatch.setattr(gpus, "used", lambda: ["cuda:0", "cuda:1"])
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: held.append(dict(gpu_lock._shared)))
    return held


def reserve(monkeypatch, size: int) -> None:
    """Take a GPU, whose cache holds this many bytes. The running test has not shared it."""
    monkeypatch.setattr(gpu, "_uuid", "g")
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: size * int(device[-1]))


@pytest.mark.parametrize(
    ("reserved", "freed"), [(gpus.MAX_CACHED_BYTES + 1, 1), (gpus.MAX_CACHED_BYTES, 0)]
)
@pytest.mark.usefixtures("folder")
def test_a_test_that_ends_frees_large_cached_memory(monkeypatch, emptied, reserved, freed):
    reserve(monkeypatch, reserved)
    with pytest.raises(KeyError), gpu.shared():
        raise KeyError
    assert len(emptied) == freed
    assert all("g" in held for held in emptied)


@pytest.mark.usefixtures("folder")
def test_who_waits_for_a_race_frees_large_cached_memory(monkeypatch, emptied):
    """Another's race, which runs first, may need it."""
    reserve(monkeypatch, gpus.MAX_CACHED_BYTES + 1)
    flock = gpu_lock.fcntl.flock
    exclusive_after = []

    def record(lock, kind):
        if kind == gpu_lock.fcntl.LOCK_EX and lock.name.endswith(".use"):
            exclusive_after.append(len(emptied))
        flock(lock, kind)

    monkeypatch.setattr(gpu_lock.fcntl, "flock", record)
    with gpu_lock.share("g"), gpu_lock.hold("g"):
        pass
    assert exclusive_after == [1]


@pytest.mark.usefixtures("folder")
def test_a_test_of_all_gpus_shares_them_and_races_on_all(monkeypatch):
    monkeypatch.setattr(gpu, "_uuid", "b")
    monkeypatch.setattr(gpu, "_in_use", [])
    monkeypatch.setattr(gpu_lock, "all_gpus", lambda: ["b", "a"])
    monkeypatch.setattr(gpus, "used", list)
    with gpu.shared(every=True):
        assert {"a", "b"} <= set(gpu_lock._shared)
        with gpu.exclusive():
            assert gpu_lock._held == {"a", "b"}
        assert not gpu_lock._held
    with gpu.shared(), gpu.exclusive():
        assert gpu_lock._held == {"b"}


@pytest.mark.usefixtures("folder")
def test_the_wait_for_races_is_not_test_time(monkeypatch):
    """Neither before a race nor after it, where the GPU is shared again."""
    monkeypatch.setattr(gpu, "_uuid", "g")
    monkeypatch.setattr(gpu, "_in_use", [])
    monkeypatch.setattr(gpus, "used", list)
    flock, left = gpu_lock.fcntl.flock, []

    def note(lock, kind):
        if kind != gpu_lock.fcntl.LOCK_UN:
            left.append(timeouts.seconds_left())
        flock(lock, kind)

    with gpu.shared(), timeouts.time_limit(60):
        monkeypatch.setattr(gpu_lock.fcntl, "flock", note)
        with gpu.exclusive():
            assert timeouts.seconds_left() < math.inf
        assert timeouts.seconds_left() < math.inf
        with gpu.large():
            assert timeouts.seconds_left() < math.inf
    assert left == [math.inf] * 5


@pytest.mark.usefixtures("folder")
def test_shared_locks_are_given_up_before_one_is_waited_for(monkeypatch):
    given_up, waited = [], []
    flock = gpu_lock.fcntl.flock

    def note(lock, kind):
        (given_up if kind == gpu_lock.fcntl.LOCK_UN else waited).append((len(given_up), kind))
        flock(lock, kind)

    with gpu_lock.share("a"), gpu_lock.share("b"):
        monkeypatch.setattr(gpu_lock.fcntl, "flock", note)
        with gpu_lock.hold("b", "a"):
            assert len(given_up) == 2
            assert all(before == 2 for before, _ in waited)


class LargeTest:
    """A test whose tensors do not fit beside those of other workers."""

    path, nodeid, name, module = paths.ROOT / "tests" / "x.py", "x", "x", None
    config = SimpleNamespace(option=SimpleNamespace(time_limit=0))

    def __init__(self, error):
        self.error, self.held = error, []

    def get_closest_marker(self, _) -> None:
        pass

    def runtest(self):
        self.held.append("g" in gpu_lock._held)
        with gpu.exclusive():
            self.held.append("g" in gpu_lock._held)
        if self.error:
            raise self.error

    def run(self, ends):
        run = hooks.pytest_runtest_call(self)
        next(run)
        with pytest.raises(ends):
            run.throw(uses_too_much())


def uses_too_much():
    error = faults.wrong("uses too much", "raises")
    error.__cause__ = torch.OutOfMemoryError()
    return error


@pytest.mark.usefixtures("folder", "emptied")
@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (None, StopIteration),
        (ValueError(), ValueError),
        (torch.OutOfMemoryError(), NotMeasured),
        (uses_too_much(), Wrong),
    ],
)
def test_what_ran_out_of_memory_runs_once_more_alone(monkeypatch, error, ends):
    monkeypatch.setattr(gpu, "_uuid", "g")
    test = LargeTest(error)
    test.run(ends)
    assert test.held == [True, True]
    assert not gpu_lock._held


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (torch.OutOfMemoryError(), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (ValueError(), False),
    ],
)
def test_what_counts_as_out_of_memory(error, is_memory):
    def fails():
        large = torch.ones(1)
        seen.append(weakref.ref(large))
        raise error

    seen = []
    with pytest.raises(type(error)) as raised:
        fails()
    assert gpu.ran_out_of_memory(raised.value) == is_memory
    assert (seen[0]() is None) == is_memory
