"""The table of docs/cheats.md, made of the headers of tests/cheats: `python tests/cheat_table.py`.

A header says, in this order,

    puzzle          what the file is handed in for
    mode            where the open mode must reject it: both, interpreter, gpu, or race
    rejected with   a pattern of what it says then
    open            of a file of tests/cheats/sealed in their place: such a pattern; "solved" where
                    nothing is noticed; "reached" where the file itself raises, to show that it got
                    what it looked for; "ends the run" where nobody is graded after it
    sealed          a pattern of what is said in a cell, where that is another; "harmless" where the
                    kernels did the work, and what the cheat changes or reads is not there
    sealed on a GPU such a pattern or word again, or "the same", once it was seen on one
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHEATS = ROOT / "tests" / "cheats"
PAGE = ROOT / "docs" / "cheats.md"
FILES = sorted([*CHEATS.glob("*.py"), *(CHEATS / "sealed").glob("*.py")])
HEADER = re.compile(
    r"# puzzle: (?P<puzzle>.+)\n"
    r"(?:# mode: (?P<mode>.+)\n# rejected with: (?P<rejected>.+)\n)?"
    r"(?:# open: (?P<open>.+)\n)?"
    r"(?:# sealed: (?P<sealed>.+)\n)?"
    r"(?:# sealed on a GPU: (?P<gpu>.+)\n)?"
)
HARMLESS, SOLVED, REACHED, ENDS = "harmless", "solved", "reached", "ends the run"
THE_SAME = "the same"
MODES = {
    "both": "",
    "interpreter": " (in the interpreter)",
    "gpu": " (on a GPU)",
    "race": " (in a race)",
}
ABOUT = """# Cheats

What each file of `tests/cheats` comes to in each mode. This page is made by
`python tests/cheat_table.py` of the files' headers. `tests/test_cheats.py` and
`tests/test_sealed.py` grade each file and hold its headers, and the page, to what they see.

- **solved**: nothing is noticed.
- **reached**: the file itself raises, to show that it got what it looked for.
- **ends the run**: nobody is graded after it.
- **rejected**: what a message says that names it.
- **harmless**: the kernels did the work; what the cheat changes or reads is not there.
- **not run**: nobody has seen it there.

The last column is of an H100 with torch 2.11 and Triton 3.6, where an honest file was solved after
each; `hangs_in_the_kernel` was graded in a class there, with an honest person beside it, since a
hung GPU ends the process that waits for it.

"""


@dataclass(frozen=True)
class Cheat:
    """What a file's header says.

    open, sealed, gpu: patterns, or one of the words above; gpu is None where nobody has seen it
    """

    path: Path
    puzzle: str
    mode: str
    open: str
    sealed: str
    gpu: str | None


def read(path: Path) -> Cheat:
    """Return what the header of this file says."""
    header = HEADER.match(path.read_text())
    assert header, f"{path.name} has no header"
    said = header.groupdict()
    opened = said["rejected"] or said["open"]
    assert opened, f"{path.name} says nothing of the open mode"
    sealed = said["sealed"] or opened
    gpu = sealed if said["gpu"] == THE_SAME else said["gpu"]
    return Cheat(path, said["puzzle"], said["mode"] or "interpreter", opened, sealed, gpu)


def page() -> str:
    """Return the page."""
    rows = ["| cheat | open | sealed, in the interpreter | sealed, on a GPU |", "|---|---|---|---|"]
    for cheat in map(read, FILES):
        opened = _shown(cheat.open)
        opened += MODES[cheat.mode] if opened.startswith("rejected") else ""
        gpu = _shown(cheat.gpu) if cheat.gpu else "not run"
        rows.append(f"| `{cheat.path.stem}` | {opened} | {_shown(cheat.sealed)} | {gpu} |")
    return ABOUT + "\n".join(rows) + "\n"


def _shown(said: str) -> str:
    if said in (HARMLESS, SOLVED, REACHED, ENDS):
        return said
    either = [re.sub(r"\.\*|\.\.\.", " … ", it).strip() for it in said.split("|")]
    return "rejected: " + " or ".join(f"“{it}”" for it in either)


if __name__ == "__main__":
    PAGE.write_text(page())
