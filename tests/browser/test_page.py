"""The page of --page in a real browser, as a learner and a teacher use it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from course.page import html
from course.paths import ROOT
from course.plugin.ladder import ladder
from tests.pages import HOSTILE, klass, report, solved, wrong

pytestmark = pytest.mark.proof

PAGES = {"one person": [report(f"bob {HOSTILE}", solved, wrong)], "a class": klass()}
# Widths in CSS pixels: of a window, a phone, and between the margins of A4.
WIDE, PHONE, PAPER = 1200, 360, 700


@pytest.fixture
def show(browser, tmp_path):
    """Open the page of reports, or a file; what it asks for or complains of is an error."""
    complaints: list[str] = []
    contexts = []

    def show(shown: list | Path, **options):
        file = tmp_path / "page.html"
        if isinstance(shown, Path):
            file = shown
        else:
            file.write_text(html.write(shown), encoding="utf-8")
        contexts.append(browser.new_context(viewport={"width": WIDE, "height": 800}, **options))
        page = contexts[-1].new_page()
        page.set_default_timeout(5000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        address = file.as_uri()
        page.on(
            "request",
            lambda asked: asked.url.startswith((address, "data:")) or complaints.append(asked.url),
        )
        page.goto(address)
        return page

    yield show
    for context in contexts:
        context.close()
    assert not complaints


def column(table, number: int) -> list[str]:
    """The cells of a column as they stand."""
    cells = table.locator(f"tbody tr > :nth-child({number})")
    return [text.strip().partition("\n")[0] for text in cells.all_inner_texts()]


def test_a_learner_finds_what_to_fix(show):
    page = show(PAGES["one person"])
    assert page.title() == f"bob {HOSTILE} · Triton Kata"
    section = page.locator("details.puzzle", has_text="01.2 Swish")
    message = section.get_by_text("reads x[1..1023] but x has 1 element").first
    assert not message.is_visible()
    section.locator("summary").first.click()
    assert message.is_visible()
    assert section.get_by_text("1, and 3 more").count() == 0
    assert section.get_by_text("7 checks fail for this reason").is_visible()
    later = section.get_by_text("x is read 2.0 times").first
    assert not later.is_visible()
    section.get_by_text("more traffic than the spec allows").click()
    assert later.is_visible()
    row = section.locator("tr.fails")
    assert row.all_inner_texts() == ["x read\t2x\tat most 1x\t missed"]
    section.locator("summary").first.click()
    assert not message.is_visible()


def test_a_link_of_the_scoreboard_unfolds_the_puzzle(show):
    page = show(PAGES["one person"])
    page.get_by_role("link", name="01.2 Swish", exact=True).click()
    heading = page.get_by_role("heading", name="01.2 Swish")
    assert page.locator("details.puzzle[open]").count() == 1
    assert 0 <= heading.bounding_box()["y"] < 200


def test_what_was_measured_stands_beside_what_is_asked_for(show):
    page = show(PAGES["one person"])
    page.get_by_role("button", name="Unfold all").click()
    rows = page.get_by_role("group", name="What was measured of 01_pointwise/vector_copy")
    assert [text.strip().split("\t") for text in rows.locator("tbody tr").all_inner_texts()] == [
        ["test_traffic"],
        ["x read", "1x", "at most 1x"],
        ["allocated beside the results", "20,480 bytes", "at most 65,536 bytes"],
        ["test_speedup"],
        ["speed-up over the reference", "3.25x", "at least 1.5x"],
        ["time of yours", "0.361 ms"],
    ]
    picture = page.get_by_role("img", name="Tiles of c")
    assert picture.evaluate("image => [image.complete, image.naturalWidth]") == [True, 900]
    # What a drawing brings along stays in it.
    assert page.locator("h1").evaluate("it => getComputedStyle(it).color") != "rgb(255, 0, 0)"
    assert page.title().startswith("bob")
    page.get_by_role("button", name="Fold all", exact=True).click()
    assert page.locator("details.puzzle[open]").count() == 0


def test_tables_are_sorted_both_ways(show):
    page = show(PAGES["a class"])
    table = page.get_by_role("group", name="People", exact=True).locator("table")
    header = table.get_by_role("columnheader", name="solved")
    assert column(table, 1) == ["alice", f"bob {HOSTILE}", "carla", "dora"]
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "ascending"
    assert [name for name in column(table, 1) if name != "dora"] == [
        "carla",
        f"bob {HOSTILE}",
        "alice",
    ]
    header.get_by_role("button").press("Enter")
    assert header.get_attribute("aria-sort") == "descending"
    assert column(table, 2)[0] == "4 of 4"
    other = table.get_by_role("columnheader", name="person")
    other.get_by_role("button").click()
    assert header.get_attribute("aria-sort") is None
    assert column(table, 1)[0] == "alice"


def test_a_teacher_sees_who_stands_where(show):
    page = show(PAGES["a class"])
    chapter = page.get_by_role("group", name="01 Pointwise: loads, stores, masks").first
    rows = [text.split("\t") for text in chapter.locator("tr").all_inner_texts()]
    cells = [" ".join(cell.split()) for cell in rows[2][1:]]
    assert cells == ["✓ solved production 1 of 2", "✗ a load outside x"]
    assert [cell.split()[-2:] for cell in rows[3][1:]] == [["not", "started"]] * 2
    assert rows[-1] == ["solved by", "2 of 4", "1 of 4"]
    assert page.get_by_text("not graded: pytest ended with status 3").count() == 2
    chapter.get_by_role("link", name="a load outside x").click()
    assert page.locator("details.person[open]").count() == 1
    assert page.get_by_role("heading", name="01.2 Swish").is_visible()


def test_puzzles_and_people_are_found(show):
    page = show(PAGES["one person"])
    page.get_by_label("Find a puzzle").fill("swish")
    assert page.locator("details.puzzle:visible").count() == 1
    assert page.get_by_text("1 shown").is_visible()
    assert not page.get_by_role("heading", name="07 Matmul: tiles and tensor cores").is_visible()
    page.get_by_label("Find a puzzle").fill("")
    page.get_by_label("Show").select_option("solved")
    assert page.locator("details.puzzle:visible h3").all_inner_texts() == ["01.1 Vector copy"]
    page = show(PAGES["a class"])
    page.get_by_label("Find a person").fill("CARLA")
    assert page.locator("details.person:visible h3").all_inner_texts() == ["carla"]


@pytest.mark.parametrize("which", PAGES)
def test_everything_is_on_paper(show, which):
    page = show(PAGES[which], color_scheme="dark")
    message = page.locator(".cause pre").last
    assert not message.is_visible()
    page.emulate_media(media="print")
    assert page.locator("details:not([open])").count() > 0
    assert all(it.is_visible() for it in page.locator("pre").all())
    assert not page.get_by_role("button", name="Fold all", exact=True).is_visible()
    ground = "getComputedStyle(document.documentElement).getPropertyValue('--ground')"
    assert page.evaluate(ground) == "#fbfbfa"
    page.set_viewport_size({"width": PAPER, "height": 990})
    assert page.evaluate("document.documentElement.scrollWidth") <= PAPER
    folded = page.pdf().count(b"/Type /Page\n")
    page.locator("details").evaluate_all("all => all.forEach(it => it.open = true)")
    assert folded == page.pdf().count(b"/Type /Page\n") > 1


@pytest.mark.parametrize("which", PAGES)
def test_it_is_whole_without_its_script(show, which):
    page = show(PAGES[which], java_script_enabled=False)
    assert not page.get_by_role("button").count()
    outer = page.locator("details.person, main > section > details.puzzle").nth(1)
    inner = outer.locator(".cause, .puzzle").first
    assert not inner.is_visible()
    outer.locator("summary").first.click()
    assert inner.is_visible()


@pytest.mark.parametrize("which", PAGES)
def test_everybody_can_read_it(show, which):
    """In light and dark, wide and on a phone, folded and unfolded."""
    from axe_playwright_python.sync_playwright import Axe

    page = show(PAGES[which])
    for unfolded, width, scheme in (
        (False, WIDE, "light"),
        (True, WIDE, "light"),
        (True, WIDE, "dark"),
        (True, PHONE, "dark"),
        (True, PHONE, "light"),
    ):
        page.locator("details").evaluate_all(f"all => all.forEach(it => it.open = {int(unfolded)})")
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        sizes = page.locator("p, td, th, pre, li").evaluate_all(
            "all => all.map(it => parseFloat(getComputedStyle(it).fontSize))"
        )
        assert min(sizes) >= 12
        found = Axe().run(page)
        assert not found.violations_count, (width, scheme, found.generate_report())


@pytest.mark.commands
def test_the_page_of_a_run(show, tmp_path, monkeypatch):
    file, chapter = tmp_path / "page.html", "puzzles/01_pointwise"
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    for variable in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(variable, raising=False)
    command = [sys.executable, "-m", "pytest", f"{chapter}/vector_copy.py", f"{chapter}/fma.py"]
    options = ["--subject", "reference/stubs", "--page", file, "-o", f"cache_dir={tmp_path}"]
    ended = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, check=False)
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED, ended.stdout.decode()
    page = show(file)
    assert page.get_by_role("heading", level=1).inner_text() == "stubs"
    rows = page.get_by_role("group", name="Scoreboard").locator("tbody tr").all_inner_texts()
    assert [row.split("\t")[:2] for row in rows] == [
        ["01.1 Copy: the worked example", "✓ solved"],
        ["01.5 Fused multiply-add", "○ not started"],
    ]
    assert page.locator(".ladder .step").count() == len(ladder())
    page.get_by_role("link", name="01.1 Copy: the worked example", exact=True).click()
    assert page.get_by_text("x read", exact=True).is_visible()
