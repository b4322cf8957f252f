"""The tables after a run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from course.plugin import scoreboard
from course.plugin.ladder import PRODUCTION, SOLVED
from kernelgauge.run import Run


class Terminal:
    """Keeps what is printed."""

    def __init__(self):
        self.lines: list[str] = []

    def section(self, title: str, sep: str) -> None:
        self.lines.append(title)

    def line(self, text: str) -> None:
        self.lines.append(text)


def raced(test: str, puzzle: str, **columns: str) -> SimpleNamespace:
    """A report of a test that made a race, as xdist hands it to the controller."""
    made = SimpleNamespace(passed=True, skipped=False, user_properties=[])
    race = SimpleNamespace(columns=lambda: columns, summary=str, figures=list, plain=dict)
    run = Run(races=[race] if columns else [])
    scoreboard.describe(made, puzzle, SOLVED, test, None, run=run)
    return SimpleNamespace(nodeid=f"a::{test}", user_properties=made.user_properties, longrepr="")


def test_every_race_has_its_line_in_the_order_of_the_ladder():
    board, terminal = scoreboard.Scoreboard(None), Terminal()
    long = {"yours": "0.5 ms", "speed-up": "2.00x [1.99, 2.01]"}
    board.pytest_runtest_logreport(raced("test_speedup", "01_pointwise/swish", **long))
    board.pytest_runtest_logreport(raced("test_speedup_b", "01_pointwise/vector_copy", **long))
    board.pytest_runtest_logreport(
        raced(
            "test_speedup_a",
            "01_pointwise/vector_copy",
            **{"yours": "12.25 ms", "speed-up": "1.00x"},
        )
    )
    board.write_times(terminal)
    assert terminal.lines[1:] == [
        "test                                     yours     speed-up",
        "01_pointwise/vector_copy test_speedup_a  12.25 ms  1.00x",
        "01_pointwise/vector_copy test_speedup_b  0.5 ms    2.00x [1.99, 2.01]",
        "01_pointwise/swish test_speedup          0.5 ms    2.00x [1.99, 2.01]",
    ]


def test_a_test_that_made_no_race_has_no_line():
    board = scoreboard.Scoreboard(None)
    board.pytest_runtest_logreport(raced("test_masks", "01_pointwise/vector_copy"))
    assert not board.races


@pytest.mark.parametrize(("speed", "shipped"), [("passed", True), ("not measured", False)])
def test_what_was_not_timed_is_not_said_to_be_fit_to_ship(speed, shipped):
    puzzle = "01_pointwise/swish"
    board, terminal = scoreboard.Scoreboard(None), Terminal()
    board.rows[puzzle] = row = scoreboard.Row()
    row.verdicts[PRODUCTION] = {"test_masks": "passed", "test_speedup": speed}
    board._write_production(terminal, puzzle, row.findings())
    said = "Production: 2 of 2. It could be shipped." if shipped else "Production: 2 of 2."
    assert terminal.lines == [said]
