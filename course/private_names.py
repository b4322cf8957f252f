"""Which names of Triton, torch and pytest are used here that their documentation does not promise.

`docs/private_names.toml` says of each what it is used for. `python -m course.private_names` writes
`docs/private_names.md` of it, with the modules that use each name.
"""

from __future__ import annotations

import ast
import re
import sys
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from course.paths import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = ROOT / "docs" / "private_names.toml"
PAGE = ROOT / "docs" / "private_names.md"

# Private by their look, and documented by Python.
PYTHONS = {"_exit", "_fields", "_getframe", "_replace", "_thread"}


def page() -> str:
    """Return the page: the introduction, and the tables with the modules that use each name."""
    table = tomllib.loads(TABLE.read_text())
    lines = ["# Private names", "", table["introduction"].strip()]
    for section in table["section"]:
        head = ["name", "used by", *section["columns"]]
        lines += ["", f"## {section['title']}", "", *section.get("text", "").split("\n"), ""]
        lines += [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        for names, *cells in section["rows"]:
            by_hand = cells.pop() if len(cells) > len(section["columns"]) else ""
            cells = [names, by_hand or ", ".join(users(names)), *cells]
            lines.append(f"| {' | '.join(cells)} |")
    return re.sub("\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def users(names: str) -> list[str]:
    """Return the modules that use the names of a row: those up to the first `;`, `:` or `(`.

    What follows are attributes, or words.
    """
    dotted = re.findall("`([^`]+)`", re.split("[;:(]", names)[0])
    using = {module for name in dotted for module in _users(*name.split(".")[-2:])}
    return [module for module in _modules() if module in using]


def _users(*parts: str) -> list[str]:
    """Return the modules that mention a name with what it belongs to, or else the name alone."""

    def mentions(mentioned: set[str], part: str) -> bool:
        return any(fnmatchcase(it, part) for it in mentioned)

    name, owner = parts[-1], parts[0]
    those = {
        it: mentioned for it, (mentioned, _) in _modules().items() if mentions(mentioned, name)
    }
    return [it for it, mentioned in those.items() if mentions(mentioned, owner)] or list(those)


def named() -> set[str]:
    """Return the last parts of all names in the table; a * in them stands for anything."""
    sections = tomllib.loads(TABLE.read_text())["section"]
    names = [names for section in sections for names, *_ in section["rows"]]
    return {name.rpartition(".")[2] for it in names for name in re.findall("`([^`]+)`", it)}


def private() -> dict[str, str]:
    """Return the private names of others that our modules use, each with one that does."""
    return {name: module for module, (_, names) in _modules().items() for name in names}


@cache
def _modules() -> dict[str, tuple[set[str], set[str]]]:
    """Return all names that each module mentions, and the private ones that are not its own."""
    found = {}
    for package in ("kernelgauge", "course"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if path == Path(__file__):
                continue
            nodes = list(ast.walk(ast.parse(path.read_text())))
            strings = {it.value for it in nodes if isinstance(it, ast.Constant)}
            names = {name for node in nodes for name in _named_by(node)}
            own = {name for node in nodes for name in _made_by(node)} | PYTHONS
            private = {it for it in names - own if re.fullmatch("_[a-zA-Z]+\\w*", it)}
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            mentioned = names | {it for it in strings if isinstance(it, str)}
            found[module.removeprefix("kernelgauge.")] = mentioned, private
    return found


def _named_by(node: ast.AST) -> list[str]:
    match node:
        case ast.Attribute():
            return [node.attr]
        case ast.Name():
            return [node.id]
        case ast.FunctionDef():
            return [node.name]
        case ast.keyword(arg=str(name)):
            return [name]
        case ast.Import():
            return [part for it in node.names for part in it.name.split(".")]
        case ast.ImportFrom():
            return [*(node.module or "").split("."), *(it.name for it in node.names)]
    return []


def _made_by(node: ast.AST) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.arg():
            return [node.arg]
        case ast.alias(asname=str(name)):
            return [name]
        case ast.Name(ctx=ast.Store()):
            return [node.id]
        case ast.Attribute(value=ast.Name(id="self" | "cls"), ctx=ast.Store()):
            return [node.attr]
    return []


if __name__ == "__main__":
    PAGE.write_text(page())
