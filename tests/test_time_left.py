"""The forecast beside pytest's progress."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from course.plugin.time_left import CACHE, TimeLeft


class Cache(dict):
    """pytest's cache, as far as the forecast uses it."""

    def set(self, key, value):
        self[key] = value


class Run:
    """Tests of two files, on a clock of its own."""

    def __init__(self, known: dict[str, float] | None = None):
        self.now = 0.0
        self.cache = Cache({CACHE: known} if known else {})
        self.time_left = TimeLeft(self.cache, clock=lambda: self.now)
        tests = [f"a.py::test_{n}" for n in range(20)] + [f"b.py::test_{n}" for n in range(20)]
        items = [SimpleNamespace(nodeid=test) for test in tests]
        self.time_left.pytest_collection_finish(SimpleNamespace(items=items))

    def report(self, file: str, count: int, seconds: float, workers: int = 1) -> str:
        """So many tests of a file are over, which took so long each. Returns the forecast."""
        for _ in range(count):
            self.now += seconds / workers
            for when, duration in (("setup", 0.0), ("call", seconds), ("teardown", 0.0)):
                made = SimpleNamespace(nodeid=f"{file}::test", when=when, duration=duration)
                self.time_left.pytest_runtest_logreport(made)
        return self.time_left.forecast()


def test_a_short_run_has_no_forecast():
    assert Run().report("a.py", 9, 1.0) == ""


def test_what_is_left_takes_as_long_as_what_is_done_unless_it_is_known():
    assert Run().report("a.py", 10, 1.0) == "30 s"
    assert Run(known={"b.py": 9.0}).report("a.py", 10, 1.0) == "4 min"
    assert Run(known={"a.py": 9.0, "b.py": 0.1}).report("a.py", 10, 1.0) == "12 s"


def test_workers_share_what_is_left():
    assert Run().report("a.py", 20, 1.0, workers=2) == "10 s"


def test_the_end_has_no_forecast():
    run = Run()
    run.report("a.py", 20, 1.0)
    assert run.report("b.py", 20, 1.0) == ""


def test_what_tests_took_is_kept_for_the_next_run():
    run = Run(known={"b.py": 9.0, "c.py": 5.0})
    run.report("a.py", 10, 2.0)
    run.time_left.pytest_sessionfinish()
    assert run.cache[CACHE] == {"a.py": 2.0, "b.py": 9.0, "c.py": 5.0}


def test_workers_collect_the_same_tests():
    run = Run()
    run.time_left.pytest_xdist_node_collection_finished(None, ["c.py::test"] * 99)
    assert run.report("a.py", 10, 1.0) == "30 s"


@pytest.mark.parametrize(
    ("said", "shown"),
    [(" [ 25%]", " [ 25%, 30 s left]"), (" [10/40]", " [10/40]"), (" 3.2s", " 3.2s")],
)
def test_progress_in_per_cent_says_how_long(said, shown):
    terminal = SimpleNamespace(_get_progress_information_message=lambda: said, _screen_width=80)
    run = Run()
    run.time_left.show_in(terminal)
    assert terminal._get_progress_information_message() == said
    run.report("a.py", 10, 1.0)
    assert terminal._get_progress_information_message() == shown
    assert terminal._screen_width + len(", 59 min left") == 80


def test_another_terminal_is_left_alone():
    Run().time_left.show_in(SimpleNamespace())
