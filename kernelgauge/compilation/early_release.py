"""Atomics that hand on what other threads of their program may still be storing, found in PTX.

One thread does a scalar atomic for its whole program. Triton puts no barrier before it (seen in
3.6.0 and 3.7.1), so the other threads' stores of a tile may come later, whatever the atomic's
semantics. Triton's interpreter runs a program as one thread, and cannot see it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

BARRIER = re.compile(r"\b(?:bar|barrier)\.(?:sync|cta|cluster)")
INSTRUCTION = re.compile(r"(?:@!?(%p\d+)\s+)?([a-z][\w.:]*)\s+(.*)")
LOCATION = re.compile(r"\.loc\s+\d+ (\d+)")
REGISTER = re.compile(r"%\w+")
ADDRESS = re.compile(r"\[\s*(%\w+)")
PARAMETER = re.compile(r"\w+_param_\d+")
LABEL = re.compile(r"\$L__BB\w+")
# What is loaded does not lie where the address points to.
FROM_MEMORY = ("ld.global", "ld.shared", "ld.acquire", "atom.", "red.", "st.", "cp.")


class Instruction(NamedTuple):
    """One line of PTX.

    line: that of the kernel's file
    target: the register that it sets, or the label that it is or jumps to
    """

    operation: str
    predicate: str
    target: str
    operands: list[str]
    address: str
    line: int

    def does(self, *operations: str) -> bool:
        """Return whether this is one of these operations."""
        return self.operation.startswith(operations)


def find(ptx: str) -> tuple[int, int] | None:
    """Return the lines of a store and of the atomic that hands it on too early, None if none does.

    That is a store to global memory by other threads than the atomic's, without a barrier between
    the two, to a tensor that the kernel also loads. The atomic must release, and the kernel must
    use what an atomic acquires: a count that nobody waits for hands nothing on.
    """
    # Nearly all kernels: their code need not be taken apart.
    if ".acq" not in ptx:
        return None
    code = _parsed(ptx)
    sources: dict[str, set[str]] = defaultdict(set)
    for one in code:
        if not one.does(*FROM_MEMORY):
            sources[one.target] |= set(one.operands)
    used = {operand for one in code for operand in one.operands}
    acquired = {one.target for one in code if ".acq" in one.operation}
    if not acquired & used:
        return None

    def roots(register: str) -> set[str]:
        """Return all that a register is computed from."""
        known, new = set(), {register}
        while new:
            known |= new
            new = set().union(*(sources.get(one, ()) for one in new)) - known
        return known

    def tensors(register: str) -> set[str]:
        return set(filter(PARAMETER.fullmatch, roots(register)))

    joint = {one.target: one.operands for one in code if one.does("and.pred")}

    def threads(predicate: str) -> set[str]:
        """Return the conditions on the thread that a predicate consists of."""
        parts = [predicate]
        while any(part in joint for part in parts):
            parts = [piece for part in parts for piece in joint.get(part, [part])]
        return {part for part in parts if "%tid" in roots(part)}

    loaded = set()
    for one in code:
        if one.does("ld.global", "cp.async") and one.address:
            loaded |= tensors(one.address)
    for one, stores in _stores_before(code):
        for store in stores:
            alone = threads(store.predicate) & threads(one.predicate)
            if not alone and tensors(store.address) & loaded:
                return store.line, one.line
    return None


def _stores_before(code: list[Instruction]) -> list[tuple[Instruction, list[Instruction]]]:
    """Return each atomic that releases, and the stores from which a path without barrier leads."""
    labels = {one.target: number for number, one in enumerate(code) if one.does("label")}
    # The numbers of the stores that may come before each instruction.
    before: list[set[int]] = [set() for _ in range(len(code) + 1)]
    seen, waiting = set(), [0]
    while waiting:
        number = waiting.pop()
        if number == len(code):
            continue
        seen.add(number)
        one, stores = code[number], before[number]
        if BARRIER.search(one.operation):
            stores = set()
        elif one.does("st.global"):
            stores = stores | {number}
        nexts = [] if one.does("bra", "ret") and not one.predicate else [number + 1]
        if one.target in labels and one.does("bra"):
            nexts.append(labels[one.target])
        for following in nexts:
            if following not in seen or not stores <= before[following]:
                before[following] |= stores
                waiting.append(following)
    return [
        (one, [code[store] for store in sorted(before[number])])
        for number, one in enumerate(code)
        if one.does("atom", "red.") and re.search(r"\.(release|acq_rel)\b", one.operation)
    ]


def _parsed(ptx: str) -> list[Instruction]:
    code, line = [], 0
    for text in map(str.strip, ptx.splitlines()):
        if location := LOCATION.match(text):
            line = int(location[1])
        if (label := LABEL.match(text)) and text.startswith(f"{label[0]}:"):
            code.append(Instruction("label", "", label[0], [], "", line))
        if not (parsed := INSTRUCTION.match(text)):
            continue
        predicate, operation, operands = parsed.groups(default="")
        if operation.startswith("bra") and (label := LABEL.match(operands)):
            code.append(Instruction("bra", predicate, label[0], [], "", line))
            continue
        registers = REGISTER.findall(operands) + PARAMETER.findall(operands)
        addresses = ADDRESS.findall(operands)
        target = (
            "" if operation.startswith(("st.", "red.", "cp.")) or not registers else registers[0]
        )
        if target:
            registers = registers[1:]
        address = addresses[-1] if addresses else ""
        code.append(Instruction(operation, predicate, target, registers, address, line))
    return code
