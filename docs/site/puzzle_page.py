"""A puzzle's page: its spec, the docstring of the stub, set as text, and the stub itself."""

from __future__ import annotations

import ast
import html
import re
import textwrap
from itertools import pairwise

from course.desk.hints import hints_of
from course.plugin.ladder import effort_of

# A field's name takes ten columns of a spec: "Given     x (N,): float16".
COLUMN = 10
FIELD = re.compile(r"\S.{0,7}? {2,}\S")
# A line that ends before these columns although the next word had room ends on purpose.
FULL, NEARLY_FULL = 97, 90


def title_of(stub: str) -> str:
    """Return the title of a stub's spec, "01.2 Vector addition"."""
    return " ".join(_spec(stub).partition("\n")[0].split())


def anchor_of(name: str, kind: str) -> str:
    """Return the id of a hint in its lesson."""
    return f"{name}-{kind.replace(' ', '-')}"


def page_of(puzzle: str, stub: str) -> str:
    """Return the page of a puzzle, in Markdown.

    puzzle: "01_pointwise/vector_add"
    stub: the file as it came
    """
    name = puzzle.partition("/")[2]
    hints = [f"[{hint.kind}](README.md#{anchor_of(name, hint.kind)})" for hint in hints_of(puzzle)]
    lesson = f"Hints, in the lesson: {', '.join(hints)}" if hints else "[The lesson](README.md)"
    first, production = re.split(r"^Production .*\n", _spec(stub), flags=re.MULTILINE)
    return "\n\n".join(
        [
            f"# {title_of(stub)}",
            f"About {', '.join(effort_of(puzzle))}",
            *map(_block, first.strip().split("\n\n")[1:]),
            lesson,
            "## The file",
            f"`puzzles/{puzzle}.py`, below its spec:",
            _code(_below_spec(stub), "python"),
            "## Production",
            "To be shipped, a kernel needs more. [Production](../PRODUCTION.md) says how.",
            *map(_block, production.strip().split("\n\n")),
        ]
    )


def _spec(stub: str) -> str:
    return ast.get_docstring(ast.parse(stub)) or ""


def _below_spec(stub: str) -> str:
    docstring = ast.parse(stub).body[0]
    return "\n".join(stub.splitlines()[docstring.end_lineno :]).strip("\n")


def _block(text: str) -> str:
    """Set a paragraph of a spec: fields, a command, a formula or prose."""
    lines = text.strip("\n").splitlines()
    if lines[0].startswith("    "):
        return _code(textwrap.dedent(text))
    if not FIELD.match(lines[0]):
        return f"<p>{_inline(' '.join(lines))}</p>"
    fields = dict(map(_field, _split(lines)))
    command = fields.pop("Run", None)
    entries = "".join(map(_entry, fields, fields.values()))
    spec = f'<dl class="spec">\n{entries}</dl>' if entries else ""
    return f"{spec}\n\n{_code(command)}" if command else spec


def _split(lines: list[str]) -> list[list[str]]:
    """Split the lines of a block into those of each field."""
    fields: list[list[str]] = []
    for line in lines:
        if not line.startswith(" "):
            fields.append([])
        fields[-1].append(line)
    return fields


def _field(lines: list[str]) -> tuple[str, str]:
    """Return a field's name and text, in which lines end only where the author meant it."""
    text = lines[0][COLUMN:].strip()
    for before, line in pairwise(lines):
        width = len(before) + 1 + len(line.split()[0])
        limit = FULL if before[-1] in ".,;:" else NEARLY_FULL
        text += ("\n" if width <= limit else " ") + line[COLUMN:]
    return lines[0][:COLUMN].strip(), text


def _entry(name: str, text: str) -> str:
    return f"<dt>{name}</dt>\n<dd>{_inline(text)}</dd>\n"


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


def _code(text: str, language: str = "") -> str:
    return f"```{language}\n{text}\n```"
