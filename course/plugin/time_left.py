"""How long a run will still take, beside pytest's progress: [ 40%, 3 min left].

Tests take from a millisecond to seconds, so what earlier runs took is kept for each test file.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

import pytest

CACHE = "kata/seconds"
# A short run needs no forecast, and early ones are wrong.
MIN_SECONDS = 10.0


class TimeLeft:
    """Watches a run, and forecasts its end.

    cache: pytest's, or None where it is switched off
    """

    def __init__(self, cache, clock: Callable[[], float] = time.monotonic):
        self._cache, self._clock = cache, clock
        # Seconds a test, by test file: of earlier runs.
        self._known: dict[str, float] = {} if cache is None else cache.get(CACHE, {})
        self._left: Counter[str] = Counter()
        self._done: Counter[str] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._began = clock()

    def show_in(self, terminal) -> None:
        """Put the forecast into the progress of pytest's terminal, which makes room for it.

        A terminal that has no such progress, in another release of pytest, is left alone.
        """
        progress = getattr(terminal, "_get_progress_information_message", None)
        if progress is None or not hasattr(terminal, "_screen_width"):
            return

        def message() -> str:
            said = progress()
            left = self.forecast()
            if not (left and said.endswith("%]")):
                return said
            return f"{said.removesuffix(']')}, {left} left]"

        terminal._get_progress_information_message = message
        terminal._screen_width -= len(", 59 min left")

    def pytest_collection_finish(self, session) -> None:
        """Note what is to be run in this process."""
        self._begin(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node, ids) -> None:
        """Note what is to be run by the workers; each has collected all of it."""
        if not self._left:
            self._begin(ids)

    def pytest_runtest_logreport(self, report) -> None:
        """Count a test when it is over."""
        file = _file(report.nodeid)
        self._seconds[file] += report.duration
        if report.when == "teardown":
            self._done[file] += 1
            self._left[file] -= 1

    def pytest_sessionfinish(self) -> None:
        """Keep what the tests took."""
        taken = {file: self._seconds[file] / count for file, count in self._done.items()}
        if self._cache is not None and taken:
            self._cache.set(CACHE, self._known | taken)

    def forecast(self) -> str:
        """Say how long the rest will take, in words: 3 min; "" where that is not known yet."""
        elapsed, done = self._clock() - self._began, self._done.total()
        if elapsed < MIN_SECONDS or not done:
            return ""
        mean = sum(self._seconds.values()) / done

        def each(file: str) -> float:
            count = self._done[file]
            return self._seconds[file] / count if count else self._known.get(file, mean)

        rest = sum(count * each(file) for file, count in self._left.items() if count > 0)
        # Workers run side by side, and between tests time passes too.
        seconds = rest * elapsed / max(sum(self._seconds.values()), 1e-9)
        if seconds < 1:
            return ""
        return f"{math.ceil(seconds / 60)} min" if seconds > 90 else f"{math.ceil(seconds)} s"

    def _begin(self, tests: Iterable[str]) -> None:
        self._left = Counter(map(_file, tests))
        self._began = self._clock()


def _file(test: str) -> str:
    return test.partition("::")[0]
