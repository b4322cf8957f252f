"""The process that compiles kernels, as pytest sees it: one at a time, until it dies or hangs."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

# To import torch and Triton on a slow or busy machine.
STARTUP_SECONDS = 180.0
# From the end of the pipe to the end of the process.
EXIT_SECONDS = 5.0
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


class Worker:
    """One process of worker.py. Once a request goes wrong, the process is dead.

    owner: the process that started it, since a fork cannot use it
    loaded: the time stamp of each learner's file when the process loaded it
    """

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.loaded: dict[str, int] = {}
        ours, theirs = multiprocessing.Pipe()
        self.connection = ours
        # A file in memory. Both processes share its offset.
        self.log = os.fdopen(os.memfd_create("printed"), "w+b", buffering=0)
        script = str(Path(__file__).with_name("worker.py"))
        environment = {key: os.environ[key] for key in os.environ if key != "TRITON_INTERPRET"}
        # In a session of its own it can be killed together with the ptxas that it starts.
        self.process = subprocess.Popen(
            [sys.executable, "-I", script, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            env=environment,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        try:
            self.ask((sys.path, sys.dont_write_bytecode), STARTUP_SECONDS)
        except (TimedOut, Crashed) as error:
            reason = self.printed().strip() or repr(error)
            raise RuntimeError(f"the compiler's process did not start:\n{reason}") from None

    def ask(self, request: object, limit: float) -> Any:
        """Return the answer within `limit` seconds. Raises TimedOut or Crashed."""
        self.log.seek(0)
        self.log.truncate()
        try:
            self.connection.send(request)
            if self.connection.poll(limit):
                return self.connection.recv()
        except (EOFError, OSError):
            raise Crashed(self._cause_of_death(), self.printed()) from None
        except BaseException:
            self.kill()
            raise
        self.kill()
        raise TimedOut(limit)

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

    def _cause_of_death(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(EXIT_SECONDS)
        self.kill()
        code = self.process.wait()
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"


_worker: Worker | None = None
_answers: dict[tuple[int, str], tuple[dict, str] | Exception] = {}


def compile_kernel(request: dict, limit: float) -> tuple[dict, str]:
    """Return the worker's answer to a request and what the compiler printed meanwhile.

    Answers are kept until the learner's file changes. Raises TimedOut or Crashed.

    request: see worker.answer
    limit: seconds
    """
    changed = os.stat(request["subject"]).st_mtime_ns
    key = changed, repr(request)
    answer = _answers.get(key)
    if answer is None or (isinstance(answer, TimedOut) and answer.limit < limit):
        try:
            answer = _ask(request, changed, limit)
        except (TimedOut, Crashed) as error:
            answer = error
        _answers[key] = answer
    if isinstance(answer, Exception):
        raise answer
    return answer


def caught_crash(printed: str) -> bool:
    """Return whether an error was a crash of the compiler that Triton made a RuntimeError."""
    return any(sign in printed for sign in SIGNS_OF_A_CRASH)


def _ask(request: dict, changed: int, limit: float) -> tuple[dict, str]:
    worker = _current()
    if worker.loaded.setdefault(request["subject"], changed) != changed:
        stop()
        worker = _current()
        worker.loaded[request["subject"]] = changed
    answer = worker.ask(request, limit)
    printed = worker.printed()
    if "error" in answer and caught_crash(printed):
        stop()
    return answer, printed


def _current() -> Worker:
    global _worker
    if _worker is None or _worker.owner != os.getpid() or not _worker.alive():
        _worker = Worker()
    return _worker


@atexit.register
def stop() -> None:
    """End the worker; the next request starts another."""
    global _worker
    if _worker is not None and _worker.owner == os.getpid():
        _worker.kill()
    _worker = None
