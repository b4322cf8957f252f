"""Who may use which GPU when: workers share the GPUs out, and a race has its GPU to itself.

Each GPU has a readers-writer lock among all processes of this user. A test that uses the GPU holds
it shared, a race holds it alone. Whoever waits stands at a turnstile, a second lock, which one
process at a time passes; a race keeps it while it waits for the users to leave, so that no new ones
come in before it. Both are locks on files (flock): they end with the process that holds them,
however it ends.
"""

from __future__ import annotations

import fcntl
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

# Where the lock files are; all processes of one user must agree on it.
FOLDER = Path(tempfile.gettempdir()) / f"triton-kata-{os.getuid()}"

# What this process holds: the open lock files by GPU, and the GPUs it holds alone.
_shared: dict[str, TextIO] = {}
_held: set[str] = set()


def select_gpu(worker: str | None = None) -> str:
    """Make one of the visible GPUs the current device of this process, and return its UUID.

    worker: the name of the xdist worker ("gw3" takes GPU 3 modulo their number); None for the first

    Of a GPU that is split (MIG), CUDA shows a process one slice, and its UUID.
    """
    import torch

    number = int(re.sub(r"\D", "", worker or "") or 0)
    index = number % torch.cuda.device_count()
    torch.cuda.set_device(index)
    return str(torch.cuda.get_device_properties(index).uuid)


@contextmanager
def share(uuid: str) -> Iterator[None]:
    """Use this GPU in the body, beside others. Waits for a race to end. May be nested."""
    if uuid in _shared or uuid in _held:
        yield
        return
    with _open(uuid, "use") as lock:
        _enter(uuid, lock, fcntl.LOCK_SH)
        _shared[uuid] = lock
        try:
            yield
        finally:
            del _shared[uuid]
            _finish_work()


@contextmanager
def hold(uuid: str) -> Iterator[None]:
    """Use this GPU alone in the body. Waits until the others have left.

    Within `use`, this process gives its place up while it waits, and has it back afterwards. Raises
    RuntimeError within `alone`.
    """
    if uuid in _held:
        raise RuntimeError(f"this process holds GPU {uuid} alone already")
    outer = _shared.get(uuid)
    if outer is None:
        with _open(uuid, "use") as lock:
            yield from _hold_exclusively(uuid, lock)
        return
    _finish_work()
    fcntl.flock(outer, fcntl.LOCK_UN)
    try:
        yield from _hold_exclusively(uuid, outer)
    finally:
        fcntl.flock(outer, fcntl.LOCK_SH)


def _hold_exclusively(uuid: str, lock: TextIO) -> Iterator[None]:
    _enter(uuid, lock, fcntl.LOCK_EX)
    _held.add(uuid)
    try:
        yield
    finally:
        _held.discard(uuid)
        _finish_work()


def _enter(uuid: str, lock: TextIO, kind: int) -> None:
    with _open(uuid, "turnstile") as turnstile:
        fcntl.flock(turnstile, fcntl.LOCK_EX)
        fcntl.flock(lock, kind)


def _open(uuid: str, name: str) -> TextIO:
    FOLDER.mkdir(mode=0o700, exist_ok=True)
    return (FOLDER / f"{re.sub(r'[^0-9A-Za-z-]', '_', uuid)}.{name}").open("a")


def _finish_work() -> None:
    """What this process queued must not run in another's race."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        # A context that is dead has nothing left to run; the test that killed it says so.
        with suppress(RuntimeError):
            torch.cuda.synchronize()
