"""Processes that share GPUs: a race is alone, nobody waits for ever, the dead hold nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from judge.speed import gpu as machine
from judge.speed import gpu_lock

ROOT = Path(__file__).resolve().parent.parent

# Each line that a process writes is one write to a file opened for appending: the lines of all
# processes stand in the order in which they happened.
PRELUDE = """
import os, sys, time
from pathlib import Path
from judge.speed import gpu_lock as gpus
gpus.FOLDER = Path(sys.argv[1])
journal = os.open(gpus.FOLDER / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def note(*words):
    os.write(journal, (" ".join(map(str, words)) + "\\n").encode())
"""


def start(folder: Path, script: str, *arguments: object) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PRELUDE + script, str(folder), *map(str, arguments)]
    return subprocess.Popen(command, env=environment)


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
    """What happened on a GPU while a race held it, and races that came while it was in use."""
    users: dict[str, int] = {}
    races: dict[str, int] = {}
    wrong = []
    for gpu, event in lines:
        if event in ("use", "race") and races.get(gpu):
            wrong.append(f"{event} on {gpu} in a race")
        if event == "race" and users.get(gpu):
            wrong.append(f"race on {gpu} in use")
        users[gpu] = users.get(gpu, 0) + {"use": 1, "leave": -1}.get(event, 0)
        races[gpu] = races.get(gpu, 0) + {"race": 1, "end": -1}.get(event, 0)
    return wrong


MIXED = """
number = int(sys.argv[2])
gpu = "GPU-" + "ab"[number % 2]
for turn in range(6):
    with gpus.share(gpu):
        note(gpu, "use"); time.sleep(0.003); note(gpu, "leave")
        if (turn + number) % 3 == 0:
            with gpus.hold(gpu):
                note(gpu, "race"); time.sleep(0.005); note(gpu, "end")
        note(gpu, "use"); time.sleep(0.002); note(gpu, "leave")
    if (turn + number) % 4 == 0:
        with gpus.hold(gpu):
            note(gpu, "race"); time.sleep(0.002); note(gpu, "end")
"""


def test_a_race_is_alone_on_its_gpu(tmp_path):
    finish([start(tmp_path, MIXED, number) for number in range(8)])
    lines = journal(tmp_path)
    assert overlaps(lines) == []
    events = [event for _, event in lines]
    assert events.count("use") == events.count("leave") == 8 * 6 * 2
    assert events.count("race") == events.count("end") == 8 * 2 + 8 * 1.5


def test_overlaps_are_seen():
    assert overlaps([["a", "race"], ["a", "use"]]) == ["use on a in a race"]
    assert overlaps([["a", "use"], ["a", "race"]]) == ["race on a in use"]
    assert overlaps([["a", "use"], ["b", "race"], ["b", "end"], ["b", "use"]]) == []


def test_tests_use_a_gpu_together(tmp_path):
    script = """
with gpus.share("g"):
    note(sys.argv[2], "in")
    while len((gpus.FOLDER / "journal").read_text().splitlines()) < 3:
        time.sleep(0.002)
"""
    finish([start(tmp_path, script, number) for number in range(3)])


RELAY = """
# Two of these keep the GPU in use without a gap, each waiting for the other before it leaves.
me, other = sys.argv[2], sys.argv[3]
mine = gpus.FOLDER / me
until = time.monotonic() + 5
while time.monotonic() < until and not (gpus.FOLDER / "raced").exists():
    with gpus.share("g"):
        mine.touch()
        note(me, "in")
        for _ in range(50):
            time.sleep(0.002)
            if (gpus.FOLDER / other).exists():
                break
        mine.unlink()
"""

RACE = """
note("race", "waits")
with gpus.hold("g"):
    (gpus.FOLDER / "raced").touch()
"""


def test_a_race_gets_its_turn_though_others_keep_coming(tmp_path):
    users = [start(tmp_path, RELAY, *pair) for pair in ("xy", "yx", "zx")]
    wait_for(tmp_path, "x", "in")
    wait_for(tmp_path, "y", "in")
    began = time.monotonic()
    finish([start(tmp_path, RACE)])
    assert time.monotonic() - began < 4
    finish(users)


HOLDER = """
with gpus.{kind}("g"):
    note("holder", "in")
    time.sleep(60)
"""


@pytest.mark.parametrize("kind", ["share", "hold"])
def test_a_process_that_dies_holds_nothing(tmp_path, kind):
    holder = start(tmp_path, HOLDER.format(kind=kind))
    wait_for(tmp_path, "holder", "in")
    waiting = start(tmp_path, RACE)
    wait_for(tmp_path, "race", "waits")
    time.sleep(0.1)
    assert waiting.poll() is None
    holder.send_signal(signal.SIGKILL)
    finish([waiting])
    holder.wait()


def test_a_process_that_dies_at_the_turnstile_lets_the_next_through(tmp_path):
    holder = start(tmp_path, HOLDER.format(kind="share"))
    wait_for(tmp_path, "holder", "in")
    racer = start(tmp_path, RACE)
    wait_for(tmp_path, "race", "waits")
    time.sleep(0.1)
    user = start(tmp_path, 'with gpus.share("g"): note("user", "in")')
    time.sleep(0.3)
    assert ["user", "in"] not in journal(tmp_path)
    racer.send_signal(signal.SIGKILL)
    finish([user])
    holder.kill()
    holder.wait()
    racer.wait()


def test_after_a_race_others_may_use_the_gpu_again(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_lock, "FOLDER", tmp_path)
    with gpu_lock.share("g"):
        with gpu_lock.hold("g"):
            pass
        finish([start(tmp_path, 'with gpus.share("g"): note("user", "in")')], seconds=10)
        racer = start(tmp_path, RACE)
        wait_for(tmp_path, "race", "waits")
        time.sleep(0.1)
        assert racer.poll() is None
    finish([racer])


def test_nesting(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_lock, "FOLDER", tmp_path)
    before = dict(gpu_lock._shared)  # on a GPU this test itself uses one
    with gpu_lock.share("g"), gpu_lock.share("g"), gpu_lock.hold("g"):
        with gpu_lock.share("g"):
            pass
        with pytest.raises(RuntimeError, match="alone already"), gpu_lock.hold("g"):
            pass
        with gpu_lock.hold("another"):
            pass
    assert gpu_lock._shared == before
    assert not gpu_lock._held


def test_an_exception_lets_go(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_lock, "FOLDER", tmp_path)
    for manager in (gpu_lock.share, gpu_lock.hold):
        with pytest.raises(KeyError), manager("g"):
            raise KeyError
    with pytest.raises(KeyError), gpu_lock.share("g"), gpu_lock.hold("g"):
        raise KeyError
    finish([start(tmp_path, RACE)])


def test_workers_share_the_gpus_out(monkeypatch):
    import torch

    chosen = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)

    class Properties:
        def __init__(self, index):
            self.uuid = f"GPU-{index}"

    monkeypatch.setattr(torch.cuda, "get_device_properties", Properties)
    names = [None, "gw0", "gw1", "gw4", "gw11"]
    assert [gpu_lock.select_gpu(name) for name in names] == [
        "GPU-0",
        "GPU-0",
        "GPU-1",
        "GPU-1",
        "GPU-2",
    ]
    assert chosen == [0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("reserved", "freed"), [(machine.MAX_CACHED_BYTES + 1, 1), (machine.MAX_CACHED_BYTES, 0)]
)
def test_a_test_that_ends_gives_large_memory_back(tmp_path, monkeypatch, reserved, freed):
    calls = []
    monkeypatch.setattr(gpu_lock, "FOLDER", tmp_path)
    monkeypatch.setattr(machine, "_uuid", "g")
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: reserved)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append(dict(gpu_lock._shared)))
    with pytest.raises(KeyError), machine.shared():
        raise KeyError
    assert len(calls) == freed
    assert all("g" in used for used in calls)
