"""The pages of the kinds of fault: docs/faults/KIND.md, one for each kind."""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path

from course.paths import ROOT, display_path
from kernelgauge.words.kinds import KINDS

FOLDER = ROOT / "docs" / "faults"
CODE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]\n]+)\]\(([^)\s#]+\.md)(?:#[^)\s]*)?\)")


def path_of(kind: str) -> Path:
    """Return where the page of a kind is."""
    return FOLDER / f"{kind}.md"


def title_of(kind: str) -> str:
    """Return what a kind is called where no fault is at hand: a load outside a tensor."""
    return KINDS[kind].title.format(tensor="a tensor", error="an error")


def shown(page: str, width: int) -> str:
    """Return a page as text for a terminal: code is indented, a link is a path to open.

    page: Markdown of paragraphs and fenced code, below its heading
    width: of a line
    """
    blocks = []
    for number, part in enumerate(CODE.split(page)):
        if number % 2:
            blocks.append(textwrap.indent(part.rstrip(), "    "))
            continue
        for paragraph in filter(str.strip, LINK.sub(_as_path, part).split("\n\n")):
            words = paragraph.strip()
            lines = textwrap.wrap(words, width, break_long_words=False, break_on_hyphens=False)
            blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def table() -> str:
    """Return the table of all kinds, in Markdown, each with a link to its page beside it."""
    lines = ["| kind | what is wrong |", "|---|---|"]
    lines += [f"| [{kind}]({kind}.md) | {title_of(kind)} |" for kind in KINDS]
    return "\n".join(lines)


def _as_path(link: re.Match) -> str:
    label, target = link.groups()
    return f"{label} ({display_path(os.path.normpath(FOLDER / target))})"
