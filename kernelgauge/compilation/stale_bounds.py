"""Bounds of inner loops that Triton before 3.8 takes from the first pass of the loop around them.

`tritongpu-remove-layout-conversions`, and for Gluon `gluon-inline`, drop what a `for` carries and
nothing uses, and count the bounds of an inner `for` as no use. A variable that the outer loop
changes, and of which only those bounds are made, then keeps its first value. Seen in 3.6.0 and
3.7.1, gone in 3.8.0. Triton's interpreter runs such a kernel as it is written.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field

from triton._C.libtriton import ir, passes
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend

from kernelgauge.compilation import listings
from kernelgauge.core import versions

RESULTS = re.compile(r"(%[\w$.-]+)(?::(\d+))? = ")
NAME = re.compile(r'\s*"?([a-z_]+(?:\.\w+)+)')
VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
FOR = re.compile(r"scf\.for (%\S+) = (\S+) to (\S+) step (\S+?)(?: iter_args\((.*?)\) ->|\s)")
# What Triton's IR calls a variable that has a name: that, and a number if it is not the first.
NUMBER = re.compile(r"_\d+$")
MENDED = (3, 8)

# Operations that are dead if nobody uses what they return.
PURE_DIALECTS = {"arith", "math", "ub"}
PURE = {
    "addptr", "bitcast", "broadcast", "cat", "clampf", "descriptor_load", "dot", "dot_scaled",
    "expand_dims", "fp_to_fp", "gather", "get_num_programs", "get_program_id", "histogram",
    "int_to_ptr", "join", "load", "make_range", "make_tensor_descriptor", "mulhiui",
    "precise_divf", "precise_sqrt", "ptr_to_int", "reshape", "splat", "split", "trans", "unsplat",
}  # fmt: skip
WITH_REGIONS = {"scf.for", "scf.if", "scf.while", "tt.reduce", "tt.scan"}


@dataclass(eq=False)
class Operation:
    """An operation of Triton's IR.

    carried: of a loop, what its body knows a carried value by, and its initial value
    bounds: of a loop, where it begins and ends, and its step
    yielded: what each region hands on
    """

    name: str
    results: list[str]
    operands: list[str]
    location: str = ""
    carried: list[tuple[str, str]] = field(default_factory=list)
    bounds: list[str] = field(default_factory=list)
    yielded: list[list[str]] = field(default_factory=list)
    inner: list[Operation] = field(default_factory=list)

    def within(self) -> Iterator[Operation]:
        """Yield all operations of the regions."""
        for one in self.inner:
            yield one
            yield from one.within()

    def is_dead_unused(self) -> bool:
        """Return whether nothing else than what it returns comes of the operation."""
        if self.name in WITH_REGIONS:
            ends = ("scf.yield", "scf.condition", "tt.reduce.return", "tt.scan.return")
            return all(one.name in ends or one.is_dead_unused() for one in self.inner)
        dialect, _, name = self.name.partition(".")
        return dialect in PURE_DIALECTS or (dialect == "tt" and name in PURE)


def find(code: dict[str, str], target: GPUTarget) -> tuple[str, int] | None:
    """Return a variable and the line of a loop that ends by its first value, None if none does.

    The variable is "" where the IR does not know its name.

    code: the stages of a kernel's compilation
    target: the GPU that it was compiled for
    """
    if versions.TRITON >= MENDED:
        return None
    text = code.get("ttir", "")
    named = find_in(text)
    if text and not named:
        return None
    text = _simplified(text or code.get("source", ""), target)
    if stale := find_in(text):
        place = listings.place_of(stale[1], dict(listings.MLIR_DEFINITION.findall(text)))
        return named[0] if named else "", place[1] if place else 0
    return None


def _simplified(text: str, target: GPUTarget) -> str:
    """Return IR with its functions inlined, and what does not change outside of its loops.

    Gluon's shows what is used only then, and what is computed again is the same only then.
    """
    if text.count("scf.for ") < 2:
        return ""
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(text)
        file.flush()
        context = ir.context()
        ir.load_dialects(context)
        make_backend(target).load_dialects(context)
        module = ir.parse_mlir_module(file.name, context)
    module.context = context
    manager = ir.pass_manager(context)
    passes.common.add_inliner(manager)
    passes.common.add_canonicalizer(manager)
    passes.common.add_licm(manager)
    passes.common.add_cse(manager)
    passes.common.add_canonicalizer(manager)
    manager.run(module, "stale_bounds")
    return str(module)


def find_in(text: str) -> tuple[str, str] | None:
    """Return the variable and the inner loop's location as they stand in IR before the pass."""
    for function in text.split("tt.func ")[1:]:
        # Nearly all kernels: they need not be taken apart.
        if function.count("scf.for ") < 2 or "iter_args(" not in function:
            continue
        operations = _parsed(function)
        used = {value for one in operations for value in one.operands}
        for loop in operations:
            if loop.name == "scf.for" and loop.carried and (stale := _stale(loop, used)):
                return stale
    return None


def _stale(loop: Operation, used: set[str]) -> tuple[str, str] | None:
    """Return the variable and the inner loop's location, for one outer loop."""
    inner = [one for one in loop.within() if one.name == "scf.for"]
    if not inner:
        return None
    defined = {value: one for one in loop.within() for value in one.results}
    carried = {name: (one, i) for one in (loop, *inner) for i, (name, _) in enumerate(one.carried)}
    yielded = loop.yielded[-1]

    def closure(values: list[str]) -> set[str] | None:
        """Return all that values are made of, as the pass sees it, None where it gives up."""
        known: set[str] = set()
        waiting = list(values)
        while waiting:
            value = waiting.pop()
            if value in known or (value not in defined and value not in carried):
                continue
            known.add(value)
            if value in carried:
                owner, place = carried[value]
                waiting += [owner.yielded[-1][place], owner.carried[place][1]]
                continue
            one = defined[value]
            place = one.results.index(value)
            if one.name == "scf.while":
                return None
            if one.name == "scf.for":
                waiting += [one.carried[place][1], one.yielded[-1][place]]
            elif one.name == "scf.if":
                waiting += one.operands + [region[place] for region in one.yielded]
            else:
                waiting += one.operands
        return known

    def chosen_from(value: str) -> set[str]:
        """Return the values of which branches choose one."""
        one = defined.get(value)
        if one is None or one.name not in ("scf.if", "arith.select"):
            return {value}
        if one.name == "arith.select":
            return set().union(*map(chosen_from, one.operands[1:]))
        place = one.results.index(value)
        return set().union(*(chosen_from(region[place]) for region in one.yielded))

    seeds = [value for value, result in zip(yielded, loop.results, strict=True) if result in used]
    for one in loop.within():
        if one.name not in ("scf.for", "scf.yield") and not one.is_dead_unused():
            seeds += one.operands
    if (alive := closure(seeds)) is None:
        return None
    for (name, initial), value in zip(loop.carried, yielded, strict=True):
        outside = value not in defined and value not in carried
        if value in alive or outside or chosen_from(value) <= {name, initial}:
            continue
        for one in inner:
            if one.is_dead_unused() and not alive & set(one.results):
                continue
            if name in (closure(one.bounds) or ()):
                return NUMBER.sub("", name.removeprefix("%")), one.location
    return None


def _parsed(function: str) -> list[Operation]:
    """Return the operations of a function, each with those of its regions."""
    done: list[Operation] = []
    opened: list[Operation | None] = []
    for line in function.splitlines()[1:]:
        bare, locations = listings.without_locations(line)
        bare = bare.strip()
        if bare.startswith("}"):
            if not opened:
                break
            one = opened.pop()
            if one and locations:
                one.location = locations[-1]
            if bare.endswith("{"):
                opened.append(one)
            continue
        results = RESULTS.match(bare)
        code = bare[results.end() :] if results else bare
        named = NAME.match(code)
        if named is None:
            if bare.endswith("{"):
                opened.append(opened[-1] if opened else None)
            continue
        parent = opened[-1] if opened else None
        one = Operation(named[1], _results(results), VALUE.findall(code))
        if loop := FOR.match(code):
            one.bounds = list(loop.groups()[1:4])
            pairs = re.findall(r"(%\S+) = ([^,\s]+)", loop[5] or "")
            one.carried, one.operands = pairs, one.bounds + [initial for _, initial in pairs]
        if parent:
            parent.inner.append(one)
            if one.name == "scf.yield":
                parent.yielded.append(one.operands)
        done.append(one)
        if bare.endswith("{"):
            opened.append(one)
    return done


def _results(found: re.Match | None) -> list[str]:
    if not found:
        return []
    return [f"{found[1]}#{n}" for n in range(int(found[2]))] if found[2] else [found[1]]
