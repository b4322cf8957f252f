"""The machine code of a kernel for an NVIDIA GPU, as nvdisasm lists it: instructions and loops."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cached_property

import networkx

INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P\w+)\s+)?([\w.]+)\s*(.*?)\s*;\s*$")
LABEL = re.compile(r"(\S+):$")
SOURCE = re.compile(r'\s*//## File "(.*)", line (\d+)')
TARGET = re.compile(r"`\((\S+?)\)")
# Of a BRX: (*"BRANCH_TARGETS .L_x_2,.L_x_28"*)
TARGETS = re.compile(r"BRANCH_TARGETS ([^\"]+)")
# These end a path, unless they are predicated.
ENDS = ("EXIT", "RET", "KILL")
JUMPS = ("BRA", "JMP", "BRX", "BSYNC")
# What makes an innermost loop a wait: for an asynchronous copy or product, or for registers.
WAITS = ("SYNCS", "NANOSLEEP", "USETMAXREG")


@dataclass(frozen=True)
class Instruction:
    """One instruction. address: in bytes from the start of the kernel; source: file and line."""

    address: int
    predicate: str
    operation: str
    operands: str
    source: tuple[str, int] | None

    def __str__(self) -> str:
        predicate = f"{self.predicate:>5} " if self.predicate else " " * 6
        return f"/*{self.address:04x}*/ {predicate}{self.operation} {self.operands}".rstrip()

    def does(self, *operations: str) -> bool:
        """Return whether this is one of these operations, whatever its modifiers."""
        return self.operation.partition(".")[0] in operations

    @property
    def is_conditional(self) -> bool:
        """Whether the instruction after this one may follow."""
        # BRA.U !UP0, `(.L_x_4) and BRA P1, `(.L_x_4) have their condition among the operands.
        return bool(self.predicate) or (self.does("BRA", "JMP") and "," in self.operands)


@dataclass(frozen=True)
class Loop:
    """An innermost loop. instructions: in the order of the listing, without NOP"""

    label: str
    instructions: tuple[Instruction, ...]


class Listing:
    """The instructions of a kernel, in order.

    labels: the names of places, by the number of the instruction that they stand before
    """

    def __init__(self, text: str):
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        source = None
        for line in text.splitlines():
            if found := SOURCE.match(line):
                source = found[1], int(found[2])
            elif found := INSTRUCTION.match(line):
                address, predicate, operation, operands = found.groups(default="")
                self.instructions.append(
                    Instruction(int(address, 16), predicate, operation, operands, source)
                )
            elif found := LABEL.match(line):
                self.labels[found[1]] = len(self.instructions)

    @cached_property
    def loops(self) -> list[Loop]:
        """Return the innermost loops, in the order of their first instruction.

        A loop that only waits belongs to what is around it. Functions that the kernel calls are
        left out, and so is the endless loop behind the end of each kernel.
        """
        paths = self._paths()
        nearest = networkx.immediate_dominators(paths, 0) if paths else {}
        bodies: dict[int, set[int]] = {}
        for block, target in paths.edges:
            if _dominates(target, block, nearest):
                bodies.setdefault(target, set()).update(_loop(target, block, paths))
        bodies = {header: body for header, body in bodies.items() if not self._waits(body)}
        innermost = [
            (header, body)
            for header, body in bodies.items()
            if not any(other != header and other in body for other in bodies)
        ]
        names = {number: name for name, number in self.labels.items()}
        return [
            Loop(names.get(header, ""), tuple(self._code(body)))
            for header, body in sorted(innermost)
        ]

    def _waits(self, body: set[int]) -> bool:
        code = self._code(body)
        return len(body) == 1 and any(one.does(*WAITS) for one in code)

    def _code(self, blocks: set[int]) -> list[Instruction]:
        code = [
            one for start in sorted(blocks) for one in self.instructions[start : self._ends[start]]
        ]
        return [one for one in code if not one.does("NOP")]

    @cached_property
    def _ends(self) -> dict[int, int]:
        """Return where each basic block ends, by the number of its first instruction."""
        code = self.instructions
        jumps = {n for n, one in enumerate(code) if one.does(*JUMPS, *ENDS)}
        starts = sorted({0, *self.labels.values(), *(n + 1 for n in jumps)} - {len(code)})
        return dict(zip(starts, [*starts[1:], len(code)], strict=True))

    def _paths(self) -> networkx.DiGraph:
        """Return which blocks follow each block that is reached."""
        after: dict[int, set[int]] = {}
        # Where threads meet again at a BSYNC, which the BSSY before it on the way has said.
        meetings: dict[int, dict[str, set[str]]] = {0: {}}
        waiting = [0] if self.instructions else []
        while waiting:
            block = waiting.pop()
            meet = {barrier: set(names) for barrier, names in meetings[block].items()}
            after[block] = self._followers(block, meet)
            for target in after[block]:
                known = meetings.setdefault(target, {})
                news = {b: known.get(b, set()) | names for b, names in meet.items()}
                if target not in after or news != {b: known.get(b) for b in news}:
                    known |= news
                    waiting.append(target)
        return networkx.DiGraph(after)

    def _followers(self, block: int, meet: dict[str, set[str]]) -> set[int]:
        """Return the blocks that may follow one. meet: labels by barrier, which this updates"""
        end = self._ends[block]
        for one in self.instructions[block:end]:
            if one.does("BSSY"):
                meet[one.operands.partition(",")[0]] = set(TARGET.findall(one.operands))
        last = self.instructions[end - 1]
        named = set(TARGET.findall(last.operands)) if last.does("BRA", "JMP") else set()
        if last.does("BRX") and (listed := TARGETS.search(last.operands)):
            named = set(listed[1].split(","))
        if last.does("BSYNC"):
            named = meet.get(last.operands.strip(), set())
        goes_on = last.is_conditional or not (named or last.does(*ENDS))
        targets = {self.labels[name] for name in named if name in self.labels}
        return (targets | ({end} if goes_on else set())) & self._ends.keys()


def disassemble(cubin: bytes, kernel: str) -> Listing:
    """Return the code of one kernel of a cubin."""
    text = run_tool("nvdisasm", "--print-code", "--print-line-info", cubin=cubin)
    sections = re.split(r"^//-+ \.text\.(\S+)\s+-+$", text, flags=re.MULTILINE)
    named = dict(zip(sections[1::2], sections[2::2], strict=True))
    return Listing(named.get(kernel) or next(iter(named.values()), ""))


def run_tool(name: str, *options: str, cubin: bytes) -> str:
    """Return what one of the programs that come with Triton prints of a cubin."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run(
            [tool(name), *options, file.name], capture_output=True, text=True, check=True
        ).stdout


def tool(name: str) -> str:
    """Return the path of a program that comes with Triton."""
    import triton

    return os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin", name)


def _dominates(block: int, other: int, nearest: dict[int, int]) -> bool:
    """Return whether every path to the other block passes this one.

    nearest: the last such block before each, as networkx finds it
    """
    while other not in (block, 0):
        other = nearest[other]
    return other == block


def _loop(header: int, last: int, paths: networkx.DiGraph) -> set[int]:
    """Return the blocks of a loop: those that lead from its header to a last one, and back."""
    if last == header:
        return {header}
    inside = networkx.restricted_view(paths, [header], [])
    return {header, last, *networkx.ancestors(inside, last)}
