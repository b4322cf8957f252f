"""Locks on GPUs: workers spread over the GPUs, and a race has its GPU to itself.

Each GPU has a readers-writer lock, common to all processes of this user: a test that uses the GPU
holds it shared, a race holds it exclusively. Who uses it waits while a race runs or waits, so new
users cannot starve a race, and the races that wait follow one another: a GPU that changed between
users and races one by one would mostly wait for tests to end. Users get their turn, since a process
can race again only after it has passed as one of them. Both this lock and the one by which races
say that they wait are file locks (flock), which the kernel releases when a process ends, however it
ends.
"""

from __future__ import annotations

import fcntl
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TextIO

from kernelgauge.core import timeouts

# The folder of the lock files, the same for all processes of a user.
FOLDER = Path(tempfile.gettempdir()) / f"triton-kata-{os.getuid()}"

# What this process holds: open lock files by GPU, and the GPUs that it holds exclusively.
_shared: dict[str, TextIO] = {}
_held: set[str] = set()


def select_gpu(worker: str | None = None) -> str:
    """Make a visible GPU the current device of this process, and return its UUID.

    worker: name of the xdist worker ("gw3" gets GPU 3 modulo their number); None for the first GPU

    Of a GPU that is partitioned (MIG), CUDA shows a process one slice, and that slice's UUID.
    """
    import torch

    number = int(re.sub(r"\D", "", worker or "") or 0)
    index = number % torch.cuda.device_count()
    torch.cuda.set_device(index)
    return str(torch.cuda.get_device_properties(index).uuid)


def all_gpus() -> list[str]:
    """Return the UUIDs of all visible GPUs."""
    import torch

    count = torch.cuda.device_count()
    return [str(torch.cuda.get_device_properties(index).uuid) for index in range(count)]


@contextmanager
def share(uuid: str) -> Iterator[None]:
    """Use this GPU in the body beside other processes, once no race runs. May be nested."""
    if uuid in _shared or uuid in _held:
        yield
        return
    with _open(uuid, "use") as lock:
        _wait_as_a_user(uuid, lock)
        _shared[uuid] = lock
        try:
            yield
        finally:
            _finish_work()
            del _shared[uuid]


@contextmanager
def hold(*uuids: str) -> Iterator[None]:
    """Use these GPUs alone in the body, once all other processes have left them.

    Within `share`, this process gives up its shared locks while it waits, and gets them back
    afterwards, for which it waits too. What it waits does not count as test time. Raises
    RuntimeError within `hold`.
    """
    if held := _held.intersection(uuids):
        raise RuntimeError(f"this process already holds GPU {min(held)} exclusively")
    # All are given up before it waits for one, and all processes wait in the same order: otherwise
    # two could wait for each other.
    given_up = sorted(_shared.keys() & set(uuids))
    if given_up:
        _finish_work()
    for uuid in given_up:
        fcntl.flock(_shared[uuid], fcntl.LOCK_UN)
    try:
        with ExitStack() as stack:
            with timeouts.no_time_limit():
                for uuid in sorted(uuids):
                    for name, kind in (("races", fcntl.LOCK_SH), ("use", fcntl.LOCK_EX)):
                        fcntl.flock(stack.enter_context(_open(uuid, name)), kind)
            _held.update(uuids)
            try:
                yield
            finally:
                _held.difference_update(uuids)
                _finish_work()
    finally:
        with timeouts.no_time_limit():
            for uuid in given_up:
                _wait_as_a_user(uuid, _shared[uuid])


@contextmanager
def large(*uuids: str) -> Iterator[None]:
    """Use much of the memory of these GPUs in the body, once no other process does.

    What it waits does not count as test time.
    """
    with ExitStack() as stack:
        with timeouts.no_time_limit():
            for uuid in sorted(uuids):
                fcntl.flock(stack.enter_context(_open(uuid, "large")), fcntl.LOCK_EX)
        yield


def is_held(*uuids: str) -> bool:
    """Return whether this process uses all of these GPUs alone."""
    return _held.issuperset(uuids)


def _wait_as_a_user(uuid: str, lock: TextIO) -> None:
    """Take the lock shared, once no race waits or runs."""
    with _open(uuid, "races") as races:
        fcntl.flock(races, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_SH)


def _open(uuid: str, name: str) -> TextIO:
    FOLDER.mkdir(mode=0o700, exist_ok=True)
    return (FOLDER / f"{re.sub(r'[^0-9A-Za-z-]', '_', uuid)}.{name}").open("a")


def _finish_work() -> None:
    """Wait for the work that this process queued, which must not run during another's race, and
    give back the memory that it no longer needs."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        from kernelgauge.core import gpus

        # Nothing runs in a dead context; the test that killed it has reported that already.
        with suppress(RuntimeError):
            gpus.leave()
