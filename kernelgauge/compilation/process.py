"""The process that compiles kernels, as pytest sees it: one at a time, until it dies or hangs.

The first one can be forked from pytest itself before Triton is imported (`fork_early`). That saves
each run the two seconds of processor time that importing torch a second time takes.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing import reduction
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from kernelgauge.compilation import worker as program
from kernelgauge.core import timeouts
from kernelgauge.core.settings import settings

# To import torch and Triton on a slow or busy machine.
STARTUP_SECONDS = 180.0
# From the end of the pipe to the end of the process.
EXIT_SECONDS = 5.0
# Between two looks at how much processor time the process has used.
POLL_SECONDS = 0.5
# How much of the compiler's output is kept: a failed pass prints the whole kernel.
MAX_LOG_BYTES = 2**20
# Printed when Triton catches a crash of its own. The process is not reliable afterwards.
SIGNS_OF_A_CRASH = ("Assertion `", "PLEASE submit a bug report", "Stack dump:")


class TimedOut(Exception):
    """The compiler did not answer within `limit` seconds."""

    def __init__(self, limit: float):
        super().__init__(f"no answer within {limit:.0f} s")
        self.limit = limit


class Crashed(Exception):
    """The compiler's process died.

    how: the signal or exit status, such as SIGSEGV
    printed: its last output
    """

    def __init__(self, how: str, printed: str):
        super().__init__(how)
        self.how, self.printed = how, printed


class Forked:
    """A fork of this process that runs worker.py, with the part of Popen's methods needed here."""

    def __init__(self, ours: Connection, theirs: Connection, log: int):
        self.status: int | None = None
        self.pid = os.fork()
        if self.pid:
            return
        try:
            ours.close()
            os.setsid()
            faulthandler.disable()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for descriptor in (1, 2):
                os.dup2(log, descriptor)
            sys.stdout, sys.stderr = (
                os.fdopen(descriptor, "w", closefd=False, errors="backslashreplace")
                for descriptor in (1, 2)
            )
            program.main(theirs.fileno())
        finally:
            os._exit(1)

    def poll(self) -> int | None:
        """Return the exit status, minus the signal that ended it; None while it runs."""
        if self.status is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def wait(self, timeout: float = math.inf) -> int:
        """Return the exit status. Raises subprocess.TimeoutExpired after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("worker.py", timeout)
            time.sleep(0.005)
        return status


class Lent(Forked):
    """A fork of the worker of this process's parent. It is not our child, so /proc is asked."""

    def __init__(self, worker: Worker, theirs: Connection, log: int):
        self.status = None
        worker.connection.send(program.FORK)
        for descriptor in (theirs.fileno(), log):
            reduction.send_handle(worker.connection, descriptor, worker.process.pid)
        self.pid = worker.connection.recv()

    def poll(self) -> int | None:
        """Return the exit status, minus the signal that ended it; None while it runs."""
        if self.status is None:
            try:
                fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                fields = ["Z", "0"]
            if fields[0] in "ZX":
                self.status = os.waitstatus_to_exitcode(int(fields[-1]))
        return self.status


def _start(ours: Connection, theirs: Connection, log: int) -> subprocess.Popen:
    # In a session of its own it can be killed together with the ptxas that it starts.
    return subprocess.Popen(
        [sys.executable, "-I", program.__file__, str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=[theirs.fileno()],
        start_new_session=True,
    )


class Worker:
    """One process of worker.py. Once a request goes wrong, the process is dead.

    owner: the process that started it, since a fork cannot use it
    loaded: the time stamp of each kernel's and each launcher's file when the process loaded it
    """

    def __init__(self, start: Callable[[Connection, Connection, int], Any]) -> None:
        self.owner = os.getpid()
        self.loaded: dict[str, int] = {}
        self.is_ready = False
        ours, theirs = multiprocessing.Pipe()
        self.connection = ours
        # A file in memory. Both processes share its offset.
        self.log = os.fdopen(os.memfd_create("printed"), "w+b", buffering=0)
        self.process = start(ours, theirs, self.log.fileno())
        theirs.close()

    def ready(self) -> None:
        """Have the process import what it needs. Raises RuntimeError where it cannot."""
        if self.is_ready:
            return
        try:
            self.ask((sys.path, sys.dont_write_bytecode), STARTUP_SECONDS)
        except (TimedOut, Crashed) as error:
            reason = self.printed().strip() or repr(error)
            raise RuntimeError(f"the compiler's process did not start:\n{reason}") from None
        self.is_ready = True

    def ask(self, request: object, limit: float, clock: float = math.inf) -> Any:
        """Return the answer. Raises TimedOut or Crashed.

        limit: seconds of processor time
        clock: seconds; PATIENCE times the limit, if that is less
        """
        self.log.seek(0)
        self.log.truncate()
        clock = min(clock, limit * timeouts.PATIENCE)
        deadline = time.monotonic() + clock
        allowed = self._processor_seconds() + limit
        try:
            self.connection.send(request)
            while (left := deadline - time.monotonic()) > 0:
                if self.connection.poll(min(left, POLL_SECONDS)):
                    return self.connection.recv()
                if self._processor_seconds() > allowed:
                    break
        except (EOFError, OSError):
            raise Crashed(self._cause_of_death(), self.printed()) from None
        except BaseException:
            self.kill()
            raise
        self.kill()
        raise TimedOut(min(limit, clock))

    def printed(self) -> str:
        """Return what the process wrote to its output since the last request."""
        return os.pread(self.log.fileno(), MAX_LOG_BYTES, 0).decode(errors="replace")

    def alive(self) -> bool:
        """Return whether the process still runs."""
        return self.process.poll() is None

    def kill(self) -> None:
        """End the process, if it runs, and all that it started."""
        if self.alive():
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.connection.close()

    def _processor_seconds(self) -> float:
        """Return what the process has used, and what it started and has seen the end of."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def _cause_of_death(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(EXIT_SECONDS)
        self.kill()
        code = self.process.wait()
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"


_worker: Worker | None = None
_answers: dict[str, tuple[dict, str] | Exception] = {}


def fork_early() -> None:
    """Fork the first worker from this process, which has imported torch, and Triton not yet."""
    global _worker
    # A debugger would open the fork as a second program to debug, and stop it until it is shown.
    if _worker is None and "triton" not in sys.modules and not settings.debugged:
        _worker = Worker(Forked)


def warm_up() -> None:
    """Have a worker that is ready, for the forks of this process to borrow.

    Where none starts, the first request says so.
    """
    with contextlib.suppress(RuntimeError):
        _current()


def borrow() -> None:
    """In a fork of a process that has warmed up: have a worker that is ready at once.

    Where that one died, the first request starts one.
    """
    global _worker
    lender = _worker
    if lender is not None and lender.owner != os.getpid() and lender.is_ready:
        with contextlib.suppress(OSError, EOFError):
            _worker = Worker(lambda ours, theirs, log: Lent(lender, theirs, log))
            _worker.is_ready = True


def compile_kernel(request: dict, limit: float, clock: float) -> tuple[dict, str]:
    """Return the worker's answer to a request and what the compiler printed meanwhile.

    Answers are kept until the file of the kernel or of its launcher changes. Raises TimedOut or
    Crashed.

    request: see worker.answer
    limit: seconds of processor time
    clock: seconds
    """
    changed = {file: os.stat(file).st_mtime_ns for file in (request["subject"], request["file"])}
    key = repr((changed, request))
    answer = _answers.get(key)
    if answer is None or (isinstance(answer, TimedOut) and answer.limit < min(limit, clock)):
        try:
            answer = _ask(request, changed, limit, clock)
        except (TimedOut, Crashed) as error:
            answer = error
        _answers[key] = answer
    if isinstance(answer, Exception):
        raise answer
    return answer


def caught_crash(printed: str) -> bool:
    """Return whether an error was a crash of the compiler that Triton made a RuntimeError."""
    return any(sign in printed for sign in SIGNS_OF_A_CRASH)


def _ask(request: dict, changed: dict[str, int], limit: float, clock: float) -> tuple[dict, str]:
    worker = _current()
    if any(worker.loaded.get(file, time) != time for file, time in changed.items()):
        stop()
        worker = _current()
    worker.loaded |= changed
    answer = worker.ask(request, limit, clock)
    printed = worker.printed()
    if "error" in answer and caught_crash(printed):
        stop()
    return answer, printed


def _current() -> Worker:
    global _worker
    if _worker is None or _worker.owner != os.getpid() or not _worker.alive():
        _worker = Worker(_start)
    _worker.ready()
    return _worker


@atexit.register
def stop() -> None:
    """End the worker; the next request starts another."""
    global _worker
    if _worker is not None and _worker.owner == os.getpid():
        _worker.kill()
    _worker = None
