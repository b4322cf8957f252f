"""The pages of the book, as hooks of mkdocs: files of the repository under their own paths.

A link from one file to another is then the same link from one page to the other. A puzzle's page is
made from the stub as it came, never from the file that a learner edits.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
# mkdocs looks for modules beside this file only.
sys.path.insert(0, str(ROOT))

from puzzle_page import anchor_of, page_of, title_of  # noqa: E402

from course.desk.faults import path_of, table  # noqa: E402
from course.desk.hints import HINT, lesson_of  # noqa: E402
from course.desk.stubs import STUBS  # noqa: E402
from course.plugin.ladder import ladder  # noqa: E402
from kernelgauge.words.kinds import KINDS  # noqa: E402

CONTRIBUTING = [
    "CONTRIBUTING.md",
    "docs/judge.md",
    "docs/sealed.md",
    "docs/cheats.md",
    "docs/private_names.md",
    "CHANGELOG.md",
]
# What quotes solutions is not in the book.
QUOTES = {"docs/synchronisation.md"}
DOCUMENTS = sorted(
    {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")} - QUOTES
)
# What follows the chapters.
FURTHER = [
    "puzzles/PRODUCTION.md",
    *(path for path in DOCUMENTS if path not in CONTRIBUTING),
    "reference/H200.md",
]
# The kinds of fault, in the order in which they are to be fixed, below their table.
FAULTS = [path_of(kind).relative_to(ROOT).as_posix() for kind in KINDS]
INDEX_OF_FAULTS = "docs/faults/index.md"
ABOUT_FAULTS = """# Faults

What can be wrong with a kernel, in the order in which it is to be fixed. The message of a puzzle
that fails ends with the name of its kind, and `pytest --explain KIND` prints the page of it: what
it means on a GPU, an example, how to find and to fix it, and where the lesson is."""
# How much a page counts in a search, which should find a puzzle first (2), and not its figures.
BOOST = {
    "reference/H200.md": 0.2,
    "docs/private_names.md": 0.5,
    "CHANGELOG.md": 0.5,
    INDEX_OF_FAULTS: 1,
}

LINK = re.compile(r"(?<!!)\[(?P<label>[^\]\n]+)\]\((?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> None:
    """Lay out the navigation: the chapters, each with its puzzles below its lesson."""
    chapters: dict[str, list] = {}
    for puzzle in ladder():
        lesson = _name(lesson_of(puzzle))
        below = chapters.setdefault(lesson, [lesson])
        below.append({title_of(_stub(puzzle)): f"puzzles/{puzzle}.md"})
    config.nav = [
        {"Start": "README.md"},
        *({_heading(lesson): below} for lesson, below in chapters.items()),
        *({_heading(path): path} for path in FURTHER),
        {"Faults": [INDEX_OF_FAULTS, *({_heading(path): path} for path in FAULTS)]},
        {"Contributing": CONTRIBUTING},
    ]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Take in the pages and the pictures beside them."""
    puzzles = ladder()
    lessons = {_name(lesson_of(puzzle)) for puzzle in puzzles}
    pictures = {
        _name(path) for folder in ("puzzles", "docs") for path in (ROOT / folder).rglob("*.svg")
    }
    for path in sorted({"README.md", *FURTHER, *FAULTS, *CONTRIBUTING} | lessons | pictures):
        files.append(File(path, str(ROOT), config.site_dir, config.use_directory_urls))
    faults = f"{ABOUT_FAULTS}\n\n{table()}\n"
    files.append(File.generated(config, INDEX_OF_FAULTS, content=faults))
    for puzzle in puzzles:
        page = page_of(puzzle, _stub(puzzle))
        files.append(File.generated(config, f"puzzles/{puzzle}.md", content=page))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to pages, and give each hint a name that a link can lead to."""
    source = page.file.src_uri
    page.meta["search"] = {"boost": BOOST.get(source, 2 if page.file.generated_by else 1)}

    def link(found: re.Match) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), found["target"]))
        if not (ROOT / path).exists() or path in files.src_uris:
            return found[0]
        if Path(path).with_suffix(".md").as_posix() in files.src_uris:
            return f"[{found['label']}]({Path(found['target']).with_suffix('.md').as_posix()})"
        # A file that is no page, and the repository has no address to link to.
        return found["label"]

    return HINT.sub(_named, LINK.sub(link, markdown))


def _named(hint: re.Match) -> str:
    opened = f'<details class="question" markdown="1" id="{anchor_of(hint["name"], hint["kind"])}">'
    return hint[0].replace("<details>", opened, 1)


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _heading(path: str) -> str:
    """Return a page's heading, up to a colon."""
    return (ROOT / path).read_text().partition("\n")[0].lstrip("# ").partition(":")[0]


def _stub(puzzle: str) -> str:
    return (STUBS / f"{puzzle}.py").read_text()
