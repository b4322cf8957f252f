"""Write reports as one HTML file: of one person, or of a class.

The templates escape everything but what this module marks as safe: our own style and script.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from course.page import report as states
from course.page.report import Puzzle, Report

HERE = Path(__file__).parent
# The kinds of check, by heading.
KINDS = {
    "shapes": "shapes",
    "masks": "masks",
    "numerics": "numerics",
    "traffic": "traffic",
    "compiles": "compiles",
    "speedup": "speed",
}
LEVELS = {"solved": "first level", "production": "production"}
# Of each state: its mark, its words, and how far it is, for sorting.
STATES = {
    states.PRODUCTION: ("★", "production", 5),
    states.SOLVED: ("✓", "solved", 4),
    states.UNFINISHED: ("…", "not all was run", 3),
    states.WRONG: ("✗", "to fix", 2),
    states.NOT_STARTED: ("○", "not started", 1),
    states.NOT_GRADED: ("·", "not in this run", 0),
}
# Maps of where a result is wrong, and lines of source with what is below them.
INDENT = "    "
# Of each verdict on a check, its words, in the order of reading.
VERDICTS = {
    "wrong": "failed",
    "not run": "not run",
    "unsolved": "not started",
    "not measured": "not measured",
    "passed": "passed",
}


def write(reports: Sequence[Report]) -> str:
    """Return the page of one person, or of several, who are a class."""
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {
        "quantity": quantity,
        "chapters": chapters,
        "image": image,
        "message": message,
    }
    environment.globals |= {"KINDS": KINDS, "LEVELS": LEVELS, "STATES": STATES}
    environment.globals |= {"VERDICTS": VERDICTS, "DONE": states.DONE, "slug": slug}
    style = (HERE / "page.css").read_text(encoding="utf-8")
    script = (HERE / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("class.html" if len(reports) > 1 else "person.html").render(
        report=reports[0],
        reports=reports,
        chapters_graded=list(chapters(_graded_by_any(reports))),
        style=Markup(style),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
    )


def chapters(puzzles: Iterable[Puzzle]) -> list[tuple[str, list[Puzzle]]]:
    """Return puzzles by the titles of their chapters."""
    return [(title, list(steps)) for title, steps in groupby(puzzles, lambda it: it.chapter)]


def number(value: float) -> str:
    """Return a measured number as people read it: 20,480 or 1.05."""
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.3g}"


def quantity(value: float, unit: str) -> str:
    """Return a measured number with its unit: 1.05x or 20,480 bytes."""
    return f"{number(value)}{unit if unit[:1] in ('x', '%') else ' ' + unit}".rstrip()


def message(text: str) -> Markup:
    """Return what the judge said, whose lines may wrap, but for what is drawn in lines of text."""
    blocks = groupby(text.splitlines(keepends=True), lambda line: line.startswith(INDENT))
    return Markup("").join(
        Markup('<span class="drawn">{}</span>').format("".join(lines)) if drawn else "".join(lines)
        for drawn, lines in blocks
    )


def slug(*names: str) -> str:
    """Return an id for a place in the page, of a person's number and a puzzle."""
    return "-".join(name.replace("/", "-") for name in names if name)


def image(svg: str) -> str:
    """Return a drawing as an address that holds all of it.

    In an image no script of a drawing runs, and its styles and ids stay its own.
    """
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _graded_by_any(reports: Sequence[Report]) -> list[Puzzle]:
    """Return the steps of the ladder that somebody's run was about."""
    names = {puzzle.name for report in reports for puzzle in report.graded}
    fullest = max(reports, key=lambda report: len(report.puzzles))
    return [puzzle for puzzle in fullest.puzzles if puzzle.name in names]
