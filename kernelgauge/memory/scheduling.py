"""The order in which the programs of an interpreted launch run: one at a time, each to its end.

On a GPU programs run at the same time, so one may wait for another by means of atomics. Here a
waiting program yields its turn: programs that have not begun, and others that wait, go on in
threads, only one of which runs at any time.
"""

from __future__ import annotations

import contextvars
import ctypes
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable

from torch.utils._python_dispatch import _disable_current_modes

# How long to wait for a cancelled thread to end.
GRACE_SECONDS = 1.0


class _Cancelled(BaseException):
    """Ends the thread of a program that need not go on."""


class Scheduler:
    """The programs of one launch.

    order: their numbers
    run: runs one of them, by its number
    most: how many may have begun and not ended; any number by default
    yielded: whether one of them has waited
    """

    def __init__(self, order: Iterable[int], run: Callable[[int], None], most: float = math.inf):
        self._pending = dict.fromkeys(order)
        self._most, self.yielded = most, False
        self._run = run
        self._waiting: deque[threading.Semaphore] = deque()
        self._threads: list[threading.Thread] = []
        self._main = self._own = threading.Semaphore(0)
        self._error: BaseException | None = None
        self._cancelled = False

    @property
    def waiting(self) -> int:
        """The number of programs that have yielded their turn."""
        return len(self._waiting)

    @property
    def held_back(self) -> int:
        """The number of programs that begin when others have ended."""
        return len(self._pending)

    def run_all(self) -> None:
        """Run every program. Raises the error of the first one that fails."""
        try:
            self._work()
            if self._waiting:
                self._wake_next()
                self._sleep(self._main)
        except _Cancelled:
            pass
        except BaseException:
            self._interrupt()
            raise
        finally:
            self._end_threads()
            # It holds what holds this scheduler: together they would keep a launch's tensors alive.
            del self._run
        if self._error:
            raise self._error

    def yield_turn(self) -> bool:
        """Let another program run while this one waits. Return False if there is no other."""
        own, self.yielded = self._own, True
        if self._pending and self.waiting + 1 < self._most:
            # In a copy of this context, which holds NumPy's handling of overflows.
            run = contextvars.copy_context().run
            thread = threading.Thread(target=run, args=(self._thread,), daemon=True)
            self._threads.append(thread)
            self._waiting.append(own)
            # The guard's ban on threads is for the subject, not for this one.
            with _disable_current_modes():
                thread.start()
        elif self._waiting:
            self._waiting.append(own)
            self._wake_next()
        else:
            return False
        self._sleep(own)
        return True

    def _work(self) -> None:
        while self._pending:
            number = next(iter(self._pending))
            del self._pending[number]
            self._run(number)

    def _thread(self) -> None:
        self._own = threading.Semaphore(0)
        try:
            self._work()
        except _Cancelled:
            return
        except BaseException as error:
            self._error = error
        if self._error or not self._waiting:
            self._main.release()
        else:
            self._wake_next()

    def _wake_next(self) -> None:
        self._waiting.popleft().release()

    def _sleep(self, own: threading.Semaphore) -> None:
        own.acquire()
        self._own = own
        if self._cancelled or self._error:
            raise _Cancelled

    def _interrupt(self) -> None:
        """Stop the thread that was running when this one was interrupted: it may never return."""
        for thread in self._threads:
            if thread.is_alive() and thread.ident is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread.ident), ctypes.py_object(_Cancelled)
                )

    def _end_threads(self) -> None:
        self._cancelled = True
        for semaphore in self._waiting:
            semaphore.release()
        for thread in self._threads:
            thread.join(GRACE_SECONDS)
