"""The book: it builds without a warning, every link leads somewhere, and no solution is in it."""

from __future__ import annotations

import ast
import html
import json
import posixpath
import re
import subprocess
import sys
import threading
from collections.abc import Iterable
from functools import cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from course.desk.stubs import STUBS
from course.paths import PUZZLES, ROOT, SOLUTIONS
from course.plugin.ladder import ladder
from kernelgauge.words.kinds import KINDS
from tests.browser.conftest import lacks

pytestmark = pytest.mark.proof

BUILD = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir"]
PAGES = {
    *("index.html", "404.html", "CONTRIBUTING.html", "CHANGELOG.html", "puzzles/PRODUCTION.html"),
    "reference/H200.html",
    # What quotes solutions is not in the book.
    *(
        f"docs/{path.stem}.html"
        for path in (ROOT / "docs").glob("*.md")
        if path.stem != "synchronisation"
    ),
    *(f"docs/faults/{kind}.html" for kind in ("index", *KINDS)),
    *(f"puzzles/{chapter.name}/index.html" for chapter in PUZZLES.glob("[0-9]*_*")),
    *(f"puzzles/{puzzle}.html" for puzzle in ladder()),
}
# What a learner must not find in the book.
SECRET = [
    *(
        path
        for folder in ("solutions", "mistakes", "peers")
        for path in (ROOT / "reference" / folder).rglob("*.py")
    ),
    # The judge's own tests, at the top and in gpu/, are of no puzzle.
    *(path for path in (ROOT / "tests").glob("[acd]*/**/*.py")),
    *PUZZLES.rglob("test_*.py"),
]
END_OF_SPEC = '\n"""\n'
# A shorter line, without its spaces, is in many files: "mask = offs < N".
MIN_LINE = 16


class Page(HTMLParser):
    """What a page refers to, what can be referred to in it, and what it says.

    links: href and src of every element
    loaded: those that a browser loads by itself
    text: that of the article, as `bare` returns it
    """

    def __init__(self, path: Path):
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self._text: list[str] = []
        self.text = ""
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "article":
            self._text.clear()
        if "id" in given:
            self.ids.add(given["id"])
        found = [given[name] for name in ("href", "src") if given.get(name)]
        self.links += found
        if tag != "a":
            self.loaded += found

    def handle_endtag(self, tag):
        if tag == "article":
            self.text = bare("".join(self._text))

    def handle_data(self, data):
        self._text.append(data)


def bare(text: str) -> str:
    """Return a text without its spaces and line ends, where these may differ."""
    return re.sub(r"\s+", "", text)


def lines(path: Path) -> set[str]:
    """Return the lines of a file that say something: not the name of what is called, alone."""
    found = map(bare, path.read_text().splitlines())
    return {line for line in found if len(line) >= MIN_LINE and not line.endswith("(")}


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    if not find_spec("material"):
        lacks("no mkdocs-material: pip install -c constraints.txt -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [*BUILD, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="session")
def pages(site) -> dict[str, Page]:
    return {path.relative_to(site).as_posix(): Page(path) for path in site.rglob("*.html")}


def test_pages_are_the_lessons_the_puzzles_and_the_documents(pages):
    assert set(pages) == PAGES


def test_every_link_leads_somewhere(site, pages):
    def leads(page: str, link: str) -> bool:
        target = urlsplit(link)
        if target.scheme:
            return True
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(target.path)))
        # The page for what is not found may be shown anywhere, and links from the root.
        path = page if not target.path else path.lstrip("/")
        if not (site / path).is_file():
            return False
        return not target.fragment or unquote(target.fragment) in pages[path].ids

    dead = {(page, it) for page in pages for it in set(pages[page].links) if not leads(page, it)}
    assert not dead


def test_nothing_is_loaded_from_elsewhere(site, pages):
    loaded = {link for page in pages.values() for link in page.loaded}
    assert loaded
    assert not [link for link in loaded if urlsplit(link).netloc]
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.findall(r"url\(\s*[\"']?(?:https?:)?//[^)]*|@import[^;]*", styles)


def test_puzzles_follow_one_another_as_on_the_ladder(site):
    page, passed = "index.html", []
    while found := re.search(
        r'href="([^"]+)" class="md-footer__link md-footer__link--next', (site / page).read_text()
    ):
        page = posixpath.normpath(posixpath.join(posixpath.dirname(page), found[1]))
        passed.append(page.removeprefix("puzzles/").removesuffix(".html"))
    assert [page for page in passed if page in ladder()] == ladder()
    assert len(passed) + len({"index.html", "404.html"}) == len(PAGES)


def test_page_of_a_puzzle_has_its_whole_spec_and_its_stub(pages):
    missing = {}
    for puzzle in ladder():
        stub = (STUBS / f"{puzzle}.py").read_text()
        first, _, production = (ast.get_docstring(ast.parse(stub)) or "").partition("\nProduction ")
        spec = f"{first}\n{production.partition(' adds')[2]}".replace("`", "")
        # The commands are blocks of their own, without a label.
        spec = re.sub(r"^Run ", "", spec, flags=re.MULTILINE)
        asked = f"{spec}\n{stub.partition(END_OF_SPEC)[2]}".splitlines()
        text = pages[f"puzzles/{puzzle}.html"].text
        missing[puzzle] = [line for line in asked if bare(line) not in text]
    assert not any(missing.values()), missing


def test_hints_are_folded(site):
    lesson = (site / "puzzles/01_pointwise/index.html").read_text()
    assert len(re.findall(r"<details class=\"question\" id=\"[\w-]+\">", lesson)) == 21
    # What is folded is Markdown too.
    assert "<code>tl.static_range</code>" in lesson.partition('id="polynomial-the-idea"')[2]


def given_away(files: Iterable[Path], text: str) -> set[Path]:
    """Return those of the files of which a line is in a text, both without spaces.

    What a stub or a lesson says is no secret.
    """
    told = [*STUBS.rglob("*.py"), *PUZZLES.glob("*/README.md"), PUZZLES / "PRODUCTION.md"]
    public = "".join(bare(path.read_text()) for path in told)

    @cache
    def is_given_away(line: str) -> bool:
        return line in text and line not in public

    return {path for path in files if any(map(is_given_away, lines(path)))}


def test_nothing_is_given_away(site, pages):
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = "".join(html.unescape(re.sub(r"<[^>]+>", "", it["text"])) for it in index["docs"])
    assert not given_away(SECRET, bare(found) + "".join(page.text for page in pages.values()))


def test_a_solution_would_be_seen():
    """Each but that of the worked example, which the learner has."""
    solutions = set(SOLUTIONS.rglob("*.py"))
    text = "".join(bare(path.read_text()) for path in solutions)
    assert solutions - given_away(solutions, text) == {SOLUTIONS / "01_pointwise/vector_copy.py"}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address(site):
    """Where a server hands out the site: the search is the one part that asks for one."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def show(browser, address):
    """Open a page of the site; at the end, nothing was asked of others and nothing complained."""
    complaints, asked, contexts = [], [], []

    def opened(path: str, width: int = 1400, **options):
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda it: complaints.append(it.text) if it.type == "error" else None)
        page.on("pageerror", lambda it: complaints.append(str(it)))
        page.on("requestfailed", lambda it: complaints.append(it.url))
        page.on("request", lambda it: asked.append(it.url))
        page.goto(f"{address}/{path}", wait_until="networkidle")
        return page

    yield opened
    for context in contexts:
        # A request under way, such as the search's for its index, would fail as its page is closed.
        for page in context.pages:
            page.wait_for_load_state("networkidle")
        context.close()
    assert not complaints
    assert not [url for url in asked if not url.startswith((address, f"blob:{address}", "data:"))]


@pytest.mark.parametrize("width", [1400, 360])
@pytest.mark.parametrize(
    "path",
    [
        *("index.html", "puzzles/01_pointwise/index.html"),
        *("puzzles/08_debugging/token_mean.html", "reference/H200.html", "docs/judge.html"),
    ],
)
def test_page_is_no_wider_than_the_screen(path, width, show):
    page = show(path, width)
    # The document scrolls down only; what is wider, such as code, scrolls by itself.
    assert page.evaluate("document.scrollingElement.scrollWidth") == width
    clipped = """() => [...document.querySelectorAll("article *")].filter(it => {
        const style = getComputedStyle(it);
        return it.scrollWidth > it.clientWidth + 1 && it.clientWidth > 1
            && style.display !== "inline" && style.overflowX === "visible"
            && !it.closest("pre, table, .md-typeset__scrollwrap, p:has(> img)");
    }).map(it => it.outerHTML.slice(0, 200))"""
    assert page.evaluate(clipped) == []


def test_dark_follows_the_system_and_a_click(show):
    def is_dark(page) -> bool:
        red = re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))
        return int(red[0]) < 128

    assert is_dark(show("index.html", color_scheme="dark"))
    page = show("index.html", color_scheme="light")
    assert not is_dark(page)
    for name in ("Switch to light mode", "Switch to dark mode"):
        page.get_by_title(name).click()
    assert is_dark(page)
    page.reload(wait_until="networkidle")
    assert is_dark(page)


@pytest.mark.parametrize("width", [1400, 360])
def test_search_finds_a_puzzle(width, show):
    page = show("index.html", width)
    if width == 360:
        page.locator("label[for=__search]").first.click()
    page.get_by_role("textbox", name="Search").press_sequentially("online softmax")
    page.locator(".md-search-result__link").first.click()
    page.wait_for_url("**/puzzles/04_softmax/online_softmax.html*")


def test_link_to_a_hint_unfolds_it(show):
    page = show("puzzles/01_pointwise/swish.html")
    page.get_by_role("link", name="the idea").click()
    hint = page.locator("#swish-the-idea p").first
    hint.wait_for(state="visible")
    assert not page.locator("#swish-a-question p").first.is_visible()
