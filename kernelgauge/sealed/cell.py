"""A process with nothing worth stealing, in which a subject's launcher runs.

It sees the system, Python, torch and Triton, read-only, and a copy of the subject's folder: no
tests, no reference, no solutions, no network, none of the judge's environment. It is killed whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelgauge.core import timeouts
from kernelgauge.sealed import recorder_file, system_calls

SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache")
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "TRITON_CACHE_DIR": "/tmp",
    "CUDA_VISIBLE_DEVICES": "",
    # Parts of torch ask for the user's name when they are imported; this one has none.
    "USER": "cell",
}  # fmt: skip
# What of the judge may be installed beside torch, and is hidden.
HIDDEN = ("kernelgauge", "course")
TMPFS_BYTES = 2**25
# Of its processor time.
STARTUP_SECONDS, CLOSING_SECONDS = 60.0, 5.0
# Of the clock, before a look at how much it has used.
SHORTEST_WAIT, LONGEST_WAIT = 0.1, 3600.0
# Of one message, and of all that is told in one call.
MAX_LINE_BYTES, MAX_CALL_BYTES = 2**22, 2**26
# What is copied of a subject's folder.
MAX_FILES, MAX_FILE_BYTES = 2000, 2**20
# Of the folder with that copy, which the judge's process locks; and from what age on one without a
# lock is left over.
COPY, LEFT_OVER_SECONDS = "triton-kata-cell-", 60.0
# A user that nobody else is, one for each cell of this machine.
FIRST_USER = 1_000_000


class CannotSeal(RuntimeError):
    """This machine lacks what a cell needs."""


class Ended(Exception):
    """The cell's process ended during a test."""


class Silent(Exception):
    """The cell did not answer in time. Its arguments: the seconds, and whether of the clock."""


class Forged(Exception):
    """What came is no recording."""


def in_force() -> str:
    """Say what keeps a cell apart on this machine. Raises CannotSeal where something is missing."""
    if shutil.which("bwrap") is None:
        raise CannotSeal(
            "--sealed needs bubblewrap, which is not installed: apt-get install bubblewrap"
        )
    with system_calls.refused() as (options, files):
        command = [*_sandbox(), *options, "/bin/true"]
        tried = subprocess.run(command, capture_output=True, text=True, check=False, pass_fds=files)
    if tried.returncode:
        reason = (tried.stderr.strip() or f"status {tried.returncode}").splitlines()[0]
        raise CannotSeal(f"--sealed needs namespaces, which this machine refuses: {reason}")
    user = "a user of its own" if os.geteuid() == 0 else "a user namespace"
    seccomp = "seccomp" if system_calls.compiled() else "no seccomp, since libseccomp is not there"
    return (
        f"sealed: launchers run in cells ({user}; mount, process, IPC and network namespaces; "
        f"limits of memory, processes, files and time; {seccomp}; no cgroup)"
    )


def _sandbox() -> list[str]:
    command = ["bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    command += ["--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
    if os.geteuid() == 0:
        for capability in ("SETUID", "SETGID", "KILL"):
            command += ["--cap-add", f"CAP_{capability}"]
    else:
        command += ["--unshare-user", "--disable-userns"]
    for path in SYSTEM:
        if os.path.islink(path):
            command += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            command += ["--ro-bind", path, path]
    return [*command, "--proc", "/proc", "--dev", "/dev"]


def _command(folder: Path, copied: Path, descriptor: int, options: list[str]) -> list[str]:
    command = [*_sandbox(), *options]
    command += ["--perms", "1777", "--size", str(TMPFS_BYTES), "--tmpfs", "/tmp"]
    command += ["--perms", "1777", "--size", str(TMPFS_BYTES), "--tmpfs", "/dev/shm"]
    paths = _paths()
    roots = {sys.base_prefix, *paths}
    roots.add(os.path.realpath(sys.base_prefix))
    bound = [*map(Path, roots), folder]
    parents = {str(parent) for path in bound for parent in path.parents}
    for parent in sorted(parents - {"/", "/tmp", "/usr"}):
        command += ["--perms", "0755", "--dir", parent]
    for root in sorted(roots):
        command += ["--ro-bind", root, root]
        for name in HIDDEN:
            if os.path.isdir(f"{root}/{name}"):
                command += ["--tmpfs", f"{root}/{name}"]
    command += ["--ro-bind", str(copied), str(folder)]
    inside = "/recorder.py"
    command += ["--ro-bind", str(recorder_file()), inside]
    for name, value in ENVIRONMENT.items():
        command += ["--setenv", name, value]
    command += [
        "--setenv",
        "PYTHONPATH",
        os.pathsep.join(paths),
        "--remount-ro",
        "/dev",
        "--remount-ro",
        "/",
    ]
    user = FIRST_USER + os.getpid() if os.geteuid() == 0 else 0
    python = os.path.realpath(sys.executable)
    return [*command, python, "-s", "-P", inside, str(descriptor), f"{folder}/", str(user)]


def _paths() -> list[str]:
    """Return where torch, Triton and what they need are installed."""
    found = {sysconfig.get_paths()[name] for name in ("purelib", "platlib")}
    specs = map(importlib.util.find_spec, ("torch", "triton"))
    found |= {str(Path(it.origin).parents[1]) for it in specs if it and it.origin}
    return sorted(found)


class Cell:
    """One sandbox, for the files of one folder. `start` begins to start it, and does not wait.

    folder: the subject's
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.is_ready, self.is_open, self._is_closing = False, False, False
        self._test = 0
        self._left = MAX_CALL_BYTES
        self._buffer = b""
        _remove_left_over()
        self._copy = tempfile.TemporaryDirectory(prefix=COPY)
        self._lock = os.open(self._copy.name, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        copied = Path(self._copy.name) / "subject"
        _copy_sources(folder, copied)
        ours, theirs = socket.socketpair()
        self._socket = ours
        with system_calls.refused() as (options, files):
            self.process = subprocess.Popen(
                _command(folder, copied, theirs.fileno(), options),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), *files],
                # Bubblewrap's own process has this user too where we are not root.
                env={"PATH": os.environ.get("PATH", os.defpath)},
                cwd="/",
                start_new_session=True,
            )
        theirs.close()

    def open(self, file: Path, function: str, gpus: dict | None, seconds: float) -> list:
        """Begin a test: a process of its own executes the file. Returns what it tells of it.

        gpus: what it is to be told of GPUs, as `gpus.facts` has it
        seconds: as in `receive`

        Raises Ended, Silent or Forged.
        """
        if not self.is_ready:
            if self.receive(STARTUP_SECONDS) != ["ready"]:
                raise Forged("no beginning")
            self.is_ready = True
        self.is_open = True
        self._test += 1
        self.send(["open", self._test, str(file), function, gpus])
        return self.receive(seconds)

    def is_free(self) -> bool:
        """Wait for the end of the test before, and return whether there was one in time."""
        self.close()
        deadline = time.monotonic() + CLOSING_SECONDS * timeouts.PATIENCE
        try:
            while self._is_closing:
                if time.monotonic() > deadline:
                    return False
                self._is_closing = self._receive(CLOSING_SECONDS)[:1] != ["closed"]
        except (Ended, Silent, Forged):
            return False
        return self.process.poll() is None

    def close(self) -> None:
        """Have the test's process end, and all that it has left: see `is_free`."""
        if self.is_open:
            self.is_open, self._is_closing = False, True
            with contextlib.suppress(Ended):
                self.send(["close", self._test])

    def send(self, message: Any) -> None:
        """Send a message. Raises Ended."""
        self._left = MAX_CALL_BYTES
        data = json.dumps(message).encode() + b"\n"
        try:
            # A cell that reads nothing must not hold up the judge.
            self._socket.settimeout(CLOSING_SECONDS)
            self._socket.sendall(data)
        except OSError:
            raise Ended from None

    def receive(self, seconds: float) -> list:
        """Return the next message. Raises Ended, Silent or Forged.

        seconds: of the cell's processor time; `timeouts.PATIENCE` times as many of the clock
        """
        message = self._receive(seconds)
        if message[:1] == ["closed"]:
            self.is_open = False
            raise Ended
        return message

    def _receive(self, seconds: float) -> list:
        begun, used, left = time.monotonic(), None, seconds
        while (at := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > MAX_LINE_BYTES or self._left < 0:
                raise Forged("more than a call tells")
            of_clock = seconds * timeouts.PATIENCE - (time.monotonic() - begun)
            if of_clock <= 0:
                raise Silent(seconds * timeouts.PATIENCE, True)
            # Most answers come at once, and cost no look at other processes.
            wait = SHORTEST_WAIT if used is None else max(left, SHORTEST_WAIT)
            if not select.select([self._socket], [], [], min(wait, of_clock, LONGEST_WAIT))[0]:
                now = self._processor_seconds()
                used = now if used is None else used
                left = seconds - (now - used)
                if left <= 0:
                    raise Silent(seconds, False)
                continue
            try:
                data = self._socket.recv(2**16)
            except OSError:
                data = b""
            if not data:
                raise Ended
            self._left -= len(data)
            self._buffer += data
        line, self._buffer = self._buffer[:at], self._buffer[at + 1 :]
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            raise Forged("no message") from None
        if not isinstance(message, list) or not message:
            raise Forged("no message")
        return message

    def _processor_seconds(self) -> float:
        """Return what the sandbox and every process in it have used until now."""
        parents, ticks = {}, {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            # Of a process that has just ended there is nothing to read.
            with contextlib.suppress(OSError):
                # After the program's name, which may have anything in it.
                told = path.read_bytes().rpartition(b")")[2].split()
                process = int(path.parent.name)
                parents[process] = int(told[1])
                # In user and system mode, its own and of children that it has waited for.
                ticks[process] = sum(map(int, told[11:15]))
        return sum(
            ticks[process] for process in ticks if self.process.pid in _line(process, parents)
        ) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """End the sandbox, and every process in it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, 9)
        self.process.wait()
        self._socket.close()
        self._copy.cleanup()
        os.close(self._lock)


def _line(process: int, parents: dict[int, int]) -> Iterator[int]:
    """Give a process, its parent, and so on."""
    while process in parents:
        yield process
        process = parents[process]


def _remove_left_over() -> None:
    """Remove the copies of processes that were killed before they could."""
    for copy in Path(tempfile.gettempdir()).glob(f"{COPY}*"):
        with contextlib.suppress(OSError):
            if time.time() - copy.stat().st_mtime < LEFT_OVER_SECONDS:
                continue
            lock = os.open(copy, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(copy)
            finally:
                os.close(lock)


def _copy_sources(folder: Path, to: Path) -> None:
    """Copy what a subject may import, readable for the cell's user."""
    to.mkdir()
    count = 0
    for path in sorted(folder.rglob("*.py")):
        count += 1
        if count > MAX_FILES:
            break
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
            continue
        target = to / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    for path in (to.parent, to, *to.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
