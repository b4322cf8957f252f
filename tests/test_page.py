"""--page: what a run found is kept whole, and shown with nothing in it that runs."""

from __future__ import annotations

import base64
import json
import re
import shlex
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from course.page import html
from course.page import report as pages
from course.paths import ROOT, display_path
from course.plugin import page, people, scoreboard
from course.plugin.ladder import PRODUCTION, SOLVED
from course.plugin.pictures import Shown
from kernelgauge.core.figure import Figure
from kernelgauge.core.verdict import NotMeasured, NotRun, Unsolved, Wrong
from kernelgauge.run import Run
from kernelgauge.speed.interval import Interval
from kernelgauge.speed.result import RaceResult
from kernelgauge.speed.roofline import Bound
from kernelgauge.words.fault import Call, Cause, Fault, Place, note
from tests import faults
from tests.launching import interpreted_only
from tests.pages import DRAWING, HOSTILE, klass, report, solved, wrong
from tests.test_traffic import copied

SWISH = "01_pointwise/swish"
PICTURE = pages.Picture("tiles", "Tiles", "One a program.", DRAWING)


@pytest.mark.parametrize("reports", [[report(HOSTILE, solved, wrong)], klass()])
def test_nothing_that_a_learner_wrote_is_markup(reports):
    text = html.write(reports)
    assert HOSTILE not in text
    assert "taken over" in text
    assert text.count("<script>") == 1
    assert text.count("<svg xmlns") == 0


def test_a_drawing_is_in_the_page_as_it_is_and_apart_from_it():
    (address,) = re.findall(
        r'src="data:image/svg\+xml;base64,(.*?)"', html.write([report("a", solved)])
    )
    assert base64.b64decode(address).decode() == DRAWING


def test_a_report_is_the_same_after_it_was_kept(tmp_path):
    pages.save(tmp_path / "class.json", klass())
    assert pages.load(tmp_path / "class.json") == klass()


def test_data_of_another_version_are_refused(tmp_path):
    pages.save(tmp_path / "old.json", [])
    old = (tmp_path / "old.json").read_text().replace(f'"format": {pages.FORMAT}', '"format": 0')
    (tmp_path / "old.json").write_text(old)
    with pytest.raises(ValueError, match="of format 0, not 2"):
        pages.load(tmp_path / "old.json")


# What a run found


def gathered(tmp_path: Path, monkeypatch, *found: tuple) -> pages.Puzzle:
    """Return what a page says of swish after these: level, test, error, figures."""
    monkeypatch.setattr(scoreboard.settings, "subjects", tmp_path)
    config = SimpleNamespace(
        option=SimpleNamespace(one_of_class=None, verbose=0),
        invocation_params=SimpleNamespace(args=("puzzles",)),
    )
    board = scoreboard.Scoreboard(config)
    drawn = Shown("swish(x)", pictures=[asdict(PICTURE) | {"about": ""}])
    gallery = SimpleNamespace(chosen=lambda: {SWISH: ("test_masks", drawn)})
    writer = page.Page(config, [tmp_path / "page.json"], "a machine", board, gallery)
    for order, (level, test, error, figures) in enumerate(found):
        made = SimpleNamespace(
            passed=error is None, skipped=False, user_properties=[], nodeid=f"a::{test}",
            longrepr=str(error) if error else None, longreprtext=f"[gw0] linux\n{error}",
            capstdout="printed\n",
        )  # fmt: skip
        scoreboard.describe(made, SWISH, level, test, error, order=order, run=Run(noted=figures))
        for plugin in (board, writer):
            plugin.pytest_runtest_logreport(made)
    writer.pytest_sessionfinish(SimpleNamespace())
    (kept,) = pages.load(tmp_path / "page.json")
    assert (kept.person, kept.machine, kept.command) == (
        tmp_path.name,
        "a machine",
        "pytest puzzles",
    )
    assert [it.name for it in kept.graded] == [SWISH]
    assert kept.graded[0].pictures == [PICTURE]
    return kept.graded[0]


OUT_OF_BOUNDS = "swish.py:9  tl.load(x)\nprogram (0, 0, 0) reads x[{}]\n1 lane is out of bounds"


def out_of_bounds(first: int) -> Wrong:
    return faults.wrong(OUT_OF_BOUNDS.format(first), "out-of-bounds-load", tensor="x")


def test_checks_come_with_messages_causes_and_figures(tmp_path, monkeypatch):
    figure = Figure("x read", np.float64(1.0), np.float64(1.5), "x")
    found = gathered(
        tmp_path, monkeypatch,
        (PRODUCTION, "test_masks_strided", out_of_bounds(3), []),
        (SOLVED, "test_masks[one]", out_of_bounds(1), []),
        (SOLVED, "test_masks[two]", out_of_bounds(2), []),
        (SOLVED, "test_traffic", None, [figure]),
    )  # fmt: skip
    assert (found.number, found.title, found.state) == ("01.6", "Swish", pages.WRONG)
    assert found.chapter == "01 Pointwise: loads, stores, masks, program ids"
    assert found.cells["solved"]["masks"] == "0/2"
    assert found.production is None
    (cause,) = found.causes
    assert cause.title == "a load outside x"
    assert cause.checks == ["test_masks[one]", "test_masks[two]", "test_masks_strided"]
    assert cause.message == OUT_OF_BOUNDS.format(1)
    assert cause.printed == "printed"
    folder = shlex.quote(display_path(tmp_path))
    assert cause.command.endswith(f"test_swish.py -k 'test_masks and one' --subject {folder}")
    assert [(it.test, it.kind, it.verdict) for it in found.checks] == [
        ("test_masks[one]", "masks", "wrong"),
        ("test_masks[two]", "masks", "wrong"),
        ("test_traffic", "traffic", "passed"),
        ("test_masks_strided", "masks", "wrong"),
    ]
    assert found.checks[1].message == OUT_OF_BOUNDS.format(2)
    assert found.checks[2].figures == [figure]
    assert type(found.checks[2].figures[0].measured) is float


def test_what_was_not_measured_or_not_run_says_why(tmp_path, monkeypatch):
    found = gathered(
        tmp_path, monkeypatch,
        (SOLVED, "test_speedup", NotMeasured("speed takes a GPU"), []),
        (SOLVED, "test_masks", NotRun("01_pointwise/swish hung"), []),
    )  # fmt: skip
    assert {it.test: it.message for it in found.checks} == {
        "test_speedup": "speed takes a GPU",
        "test_masks": "01_pointwise/swish hung",
    }


KINDS = ("shapes", "masks", "numerics", "traffic", "compiles", "speedup")
ALL_PASS = [(SOLVED, f"test_{kind}", None, []) for kind in KINDS]


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (ALL_PASS, pages.SOLVED),
        ([*ALL_PASS, *((PRODUCTION, *rest) for _, *rest in ALL_PASS)], pages.PRODUCTION),
        ([*ALL_PASS, (PRODUCTION, "test_masks", faults.wrong("no"), [])], pages.SOLVED),
        (ALL_PASS[:2], pages.UNFINISHED),
        ([*ALL_PASS, (SOLVED, "test_masks[b]", faults.wrong("no"), [])], pages.WRONG),
        ([(SOLVED, "test_masks", Unsolved("no"), [])], pages.NOT_STARTED),
    ],
)
def test_how_far_a_puzzle_is(tmp_path, monkeypatch, found, state):
    assert gathered(tmp_path, monkeypatch, *found).state == state


@interpreted_only
def test_what_is_within_its_budget_is_a_figure_too():
    traffic = copied(torch.randn(1000), torch.empty(1000), repeat=2)
    with pytest.raises(Wrong):
        traffic.check(reads=1, writes=2, launches=2, sectors=1.1, programs_at_least=16)
    assert traffic.figures == [
        Figure("launches", 2, 2),
        Figure("x read", 2.0, 1, "x"),
        Figure("result written", 2.0, 2, "x"),
        Figure("sectors of x read", 1.0, 1.1, "x the fewest"),
        Figure("sectors of result written", 1.0, 1.1, "x the fewest"),
        Figure("programs that work", 16, 16, at_least=True),
    ]


def test_a_race_gives_its_speed_up_beside_the_bar():
    interval = Interval(0.5, 0.6, ratio=1.2, low=1.1, high=1.3, settled=True)
    race = RaceResult(
        interval, 2.0, 0.8, Bound(0.25, "copy bandwidth", 1.0, "B"), calls=9, seconds=1.0
    )
    assert race.figures() == [
        Figure("speed-up over the reference", 1.2, 1.6, "x", at_least=True),
        Figure("time of yours", 0.5, unit="ms"),
        Figure("time of the reference", 0.6, unit="ms"),
        Figure("share of the copy bandwidth", 50.0, unit="%"),
    ]


# Where it is written


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("swish.py", "name a file that ends in .html"),
        ("folder.html", "Is a directory"),
        ("gone/page.html", "No such file or directory"),
        ("/proc/page.html", "No such file or directory"),
    ],
)
def test_a_page_that_cannot_be_written_is_refused(tmp_path, monkeypatch, file, why):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "swish.py").write_text("mine")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(pytest.UsageError, match=f"^--page {re.escape(file)}: {why}$"):
        page.check(SimpleNamespace(page=file, json=None))
    assert (tmp_path / "swish.py").read_text() == "mine"
    page.check(SimpleNamespace(page="new.html", json="new.json"))
    assert not (tmp_path / "new.html").exists()


def test_a_disk_that_is_full_at_the_end_is_said(tmp_path, monkeypatch):
    writer = page.Page(None, [tmp_path / "page.json"], "", SimpleNamespace(), SimpleNamespace())
    writer._checks[SWISH] = []
    monkeypatch.setattr(writer, "report", lambda: report("a", solved))

    def full(path, reports):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(page, "write", full)
    session = SimpleNamespace(exitstatus=pytest.ExitCode.OK)
    writer.pytest_sessionfinish(session)
    assert session.exitstatus == pytest.ExitCode.USAGE_ERROR
    assert writer._said[0].endswith("page.json was not written: No space left on device")


# Whose folders


def hand_in(folder: Path, *people: str) -> str:
    for person in people:
        (folder / person / "01_pointwise").mkdir(parents=True)
        (folder / person / "01_pointwise" / "swish.py").write_text("")
    return str(folder)


def found(*given: str, **options) -> list[str]:
    return list(
        people.find(
            SimpleNamespace(one_of_class=None, subject=list(given), **{"results": None, **options})
        )
    )


def test_people_are_found(tmp_path):
    folder = hand_in(tmp_path / "class", "bob", "alice")
    (tmp_path / "class" / ".git").mkdir()
    (tmp_path / "class" / "marks.csv").write_text("")
    one = hand_in(tmp_path / "late", "dora")
    assert found(folder) == ["alice", "bob"]
    assert found(f"{folder}/alice") == ["alice"]
    assert found(f"{folder}/bob", f"{one}/dora") == ["bob", "dora"]
    assert found(folder, one) == ["alice", "bob", "dora"]
    assert people.find(SimpleNamespace(one_of_class=None, subject=None, results=None)) == {}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["none"], "--subject none: there is no such folder"),
        (["empty"], "--subject empty: the folder is empty"),
        (["stray"], "--subject stray: it holds no puzzle's file, such as 01_.*, and no folder.*"),
        (["mixed"], "--subject mixed: no puzzle's file, .*, in bob, carl: add it, or take .*"),
        (["class", "late"], "--subject: two people are called alice, class/alice and late/alice.*"),
        (["class/alice", "class"], "--subject: two people are called alice.*"),
    ],
)  # fmt: skip
def test_folders_that_cannot_be_graded_are_refused(tmp_path, monkeypatch, given, why):
    monkeypatch.chdir(tmp_path)
    hand_in(tmp_path / "class", "alice", "bob")
    hand_in(tmp_path / "late", "alice")
    hand_in(tmp_path / "mixed", "alice")
    for folder in ("empty", "stray/puzzles", "mixed/bob", "mixed/carl"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "stray" / "swish.py").write_text("")
    with pytest.raises(pytest.UsageError, match=f"^{why}$"):
        found(*given)


def test_what_names_one_persons_file_is_not_for_a_class(tmp_path):
    folder = hand_in(tmp_path, "alice", "bob")
    assert found(f"{folder}/alice", xmlpath="alice.xml") == ["alice"]
    with pytest.raises(pytest.UsageError, match="--junitxml is for one person's folder"):
        found(folder, xmlpath="class.xml")


# The data


def test_data_are_as_the_schema_says(tmp_path, monkeypatch):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "docs" / "report.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    fault = Fault(
        "wrong-result",
        (note("text", text="the result is wrong", got=float("nan")),),
        call=Call("swish.py", "swish", "x: float32 (3,)"),
        place=Place("swish.py", 9, callers=(Place("swish.py", 20),)),
        program=(np.int64(1), 0, 0),
        numbers={"got": complex(1, 2), "allowed": np.float32(0.5), "error": float("inf")},
        cause=Cause(note("text", text="why"), explains=2, of=3),
    )
    gathered(
        tmp_path,
        monkeypatch,
        (SOLVED, "test_masks", Wrong(Fault("bad-input", call=fault.call, instead=fault)), []),
        (SOLVED, "test_traffic", None, [Figure("x read", 1.0, None, "x")]),
    )
    found = json.loads((tmp_path / "page.json").read_text(), parse_constant=pytest.fail)
    validator.validate(found)
    pages.save(tmp_path / "class.json", klass())
    validator.validate(json.loads((tmp_path / "class.json").read_text()))
    del found["reports"][0]["puzzles"][0]["state"]
    assert not validator.is_valid(found)
