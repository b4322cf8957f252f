"""What the compiler makes of a kernel on its way, with the learner's lines as comments between."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Iterable, Iterator

from kernelgauge.compilation import sass

# A line of the learner's source: file and number.
Place = tuple[str, int]

FILE = re.compile(r'^\t\.file\t(\d+) "(.*?)"(?: "(.*?)")?$', re.MULTILINE)
# What follows says which calls the code was inlined into: standard.py:293:36 @[ tiled.py:15:31 ]
LOC = re.compile(r"^\t\.loc\t(\d+) (\d+) (\d+)(.*)$", re.MULTILINE)
CHAIN = re.compile(r"([^\s:]+):(\d+):(\d+)")
# As `relocated` leaves it.
LOCATION = re.compile(r"^\t\.loc\t(\d+) (\d+) ")
TEMPORARY = re.compile(r"^(\$L__tmp|\.Ltmp|\$L__func|\.Lfunc|\t\.cfi_|\t\.file)")

# Where a comment stands at the right of machine code.
SOURCE_COLUMN = 72

MLIR_DEFINITION = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
MLIR_FILE = re.compile(r'"([^"]*)":(\d+):\d+')
MLIR_NAME = re.compile(r'"[^"]*"\((.*)\)$')


def annotated(code: dict, kernel: str) -> dict[str, str]:
    """Return each stage of a compiled kernel as text, by the ending of its file.

    code: the `asm` of a CompiledKernel, whose machine code was made from `relocated` assembly
    kernel: its name in there
    """
    texts = {stage: _mlir(code[stage]) for stage in ("ttir", "ttgir") if stage in code}
    if "ptx" in code:
        texts["ptx"] = _assembly(code["ptx"], "//")
        texts["sass"] = _machine_code(sass.disassemble(code["cubin"], kernel))
    if "amdgcn" in code:
        texts["amdgcn"] = _assembly(code["amdgcn"], ";")
    return texts


def relocated(assembly: str) -> str:
    """Return assembly in which what comes from Triton's library is at the line that called it.

    Only the comments say which line that is, so the assembler would not know.
    """
    files = _files(assembly)
    own = {os.path.basename(file): number for number, file in files.items() if _is_own(file)}

    def moved(found: re.Match) -> str:
        if _is_own(files.get(found[1], "")):
            return found[0]
        for name, line, column in CHAIN.findall(found[4]):
            if name in own:
                return f"\t.loc\t{own[name]} {line} {column}"
        return found[0]

    return LOC.sub(moved, assembly)


def _files(assembly: str) -> dict[str, str]:
    return {
        number: os.path.join(folder, name) if name else folder
        for number, folder, name in FILE.findall(assembly)
    }


def _is_own(file: str) -> bool:
    import triton

    return bool(file) and not file.startswith(os.path.dirname(triton.__file__) + os.sep)


def located(assembly: str) -> Iterator[tuple[str, Place | None]]:
    """Yield each line of assembly but `.loc`, and the learner's line that it comes from."""
    files, place = _files(assembly), None
    for line in relocated(assembly).splitlines():
        if location := LOCATION.match(line):
            file = files.get(location[1], "")
            place = (file, int(location[2])) if _is_own(file) and location[2] != "0" else None
        else:
            yield line, place if line.startswith("\t") else None


def _assembly(text: str, mark: str) -> str:
    code, _, _ = text.partition("\t.section\t.debug_")
    # The names of the files stand last, but for AMD.
    lines = located(code + "".join(f"{found[0]}\n" for found in FILE.finditer(text)))
    return _interleaved(((line, at) for line, at in lines if not TEMPORARY.match(line)), mark)


def _machine_code(listing: sass.Listing) -> str:
    """Return machine code with the source at the right: neighbours come from many lines."""
    sizes = {loop.label: len(loop.instructions) for loop in listing.loops}
    labels: dict[int, list[str]] = {}
    for name, number in listing.labels.items():
        loop = f"    // innermost loop: {sizes[name]} instructions" if name in sizes else ""
        labels.setdefault(number, []).append(f"{name}:{loop}")
    text: list[str] = []
    shown = None
    for number, one in enumerate(listing.instructions):
        text += labels.get(number, [])
        line = f"    {one}"
        if one.source and _is_own(one.source[0]):
            if one.source != shown or number in labels:
                line = f"{line:<{SOURCE_COLUMN}} {_comment('//', one.source)}"
            shown = one.source
        text.append(line)
    return "\n".join(text) + "\n"


def _mlir(text: str) -> str:
    definitions = dict(MLIR_DEFINITION.findall(text))
    lines: list[str] = []
    places: list[Place | None] = []
    opened: list[int] = []
    for line in text.splitlines():
        if MLIR_DEFINITION.match(line):
            continue
        bare, locations = without_locations(line)
        place = place_of(locations[-1], definitions) if locations else None
        # An operation with a body has its location behind the body.
        if bare.lstrip().startswith("}") and opened:
            start = opened.pop()
            places[start] = None if lines[start].lstrip().startswith("}") else place
            place = None
        if bare.endswith("{"):
            opened.append(len(lines))
            place = None
        lines.append(bare)
        places.append(place)
    return _interleaved(zip(lines, places, strict=True), "//")


def without_locations(line: str) -> tuple[str, list[str]]:
    """Return a line of MLIR without `loc(...)`, and what stood in the parentheses."""
    kept, found = [], []
    while (start := line.find(" loc(")) >= 0:
        end, depth = start + len(" loc("), 1
        while depth and end < len(line):
            depth += {"(": 1, ")": -1}.get(line[end], 0)
            end += 1
        found.append(line[start + len(" loc(") : end - 1])
        kept.append(line[:start])
        line = line[end:]
    return "".join([*kept, line]).rstrip(), found


def place_of(location: str, definitions: dict[str, str]) -> Place | None:
    """Return the learner's line of a location of MLIR, that of the call for what is called."""
    location = location.strip()
    if location in definitions:
        return place_of(definitions[location], definitions)
    if found := MLIR_FILE.match(location):
        return (found[1], int(found[2])) if _is_own(found[1]) else None
    if location.startswith("callsite("):
        callee, _, caller = location[len("callsite(") : -1].partition(" at ")
        return place_of(callee, definitions) or place_of(caller, definitions)
    if found := MLIR_NAME.match(location):
        return place_of(found[1], definitions)
    if location.startswith("fused"):
        parts = location[location.find("[") + 1 : -1].split(",")
        return next((place for part in parts if (place := place_of(part, definitions))), None)
    return None


def _interleaved(lines: Iterable[tuple[str, Place | None]], mark: str) -> str:
    """Return the lines with a comment before each that comes from another line of the source."""
    text: list[str] = []
    shown = None
    for line, place in lines:
        if place and place != shown:
            shown = place
            indentation = line[: len(line) - len(line.lstrip())]
            text.append(f"{indentation}{_comment(mark, place)}")
        text.append(line)
    return "\n".join(text).rstrip() + "\n"


def _comment(mark: str, place: Place) -> str:
    return f"{mark} {os.path.basename(place[0])}:{place[1]}  {linecache.getline(*place).strip()}"
