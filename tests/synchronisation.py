"""Every synchronisation of the solutions of chapter 19, left out, moved, or off by one.

    python -m tests.synchronisation [ORDERS]          the tables of docs/synchronisation.md
    python -m tests.synchronisation --right ORDERS    solutions and natural answers in as many

The solutions' calls are found in their syntax trees, so none is forgotten. Each wrong version is
one edit of the text, and runs in so many random orders in the interpreter.
"""

from __future__ import annotations

import ast
import collections
import functools
import itertools
import linecache
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch

from course import paths
from kernelgauge.core.paths import forget

CHAPTER = "19_gluon"
ORDERS = 25
# Of each solution a call of one program, with several rounds and, where it can, several tiles.
SIZES = {
    "gluon_softmax": [(60, 1000)],
    "barrier_ring": [(8, 1024)],
    "gluon_matmul": [(64, 640), (640, 64)],
    "gluon_ws_matmul": [(128, 328), (328, 512)],
    "sigmoid_attention": [(1, 128, 64), (1, 700, 64), (1, 700, 64)],
    "gluon_attention": [(1, 1, 260, 64), (1, 1, 700, 64), (1, 1, 700, 64)],
}
# Again with so few keys that the producer comes to the third tile while the first is in use.
FEW = {"gluon_attention": [(1, 1, 520, 64), (1, 1, 100, 64), (1, 1, 100, 64)]}
# Of MANY, from which on a call takes another way: these are called once for each way.
BOUNDS = {"gluon_attention": (2048, 0)}
# Edits that the interpreter accepts, and why.
ACCEPTED = [
    (r"wait(_group)?\(.*: one less", "it waits for more than it must"),
    (r"commit_group\(\): twice", "two groups a turn, so that it waits for more than it must"),
    (r"arrive\(.*: after store", "the slot is given back later than it could be"),
    (r"arrive\([kq]_.*: after w", "the slot is given back later than it could be"),
    (r"wait\(\w.*: (before|after) wait$", "two waits in a row, which may be in either order"),
    (r"wait\([kv]_.*: before (fetch|arrive)", "it waits earlier than it must"),
    (r"wait\(k_empty.*: v_empty, not", "the values of a block are given back after its keys"),
    (r"wait\(turn.*: (left out|after w)", "turns set the pace, and no result depends on it"),
    (r"wait\(turn.*: the other phase", "the other consumer begins"),
    (r"arrive\(turn.*: (before|after)", "turns set the pace, and no result depends on it"),
    (
        r"attention:132 .*: after arrive",
        "these keys' slot is fetched into only after values that are given back past line 142",
    ),
    (
        r"attention:188 .*: after arrive",
        "these keys' slot is fetched into only after values that are given back past line 191",
    ),
    (
        r"attention:(100|141) .*: after w",
        "the results are right, and the exponentials not under the product: test_compiles tells",
    ),
    (r"expect\(.*: after async_copy", "the phase cannot end before this arrival"),
    (r"expect\(.*: always", "past the last step nobody waits for these barriers"),
    (r"(full|empty) = .*: SLOTS \+ 1", "one barrier more than is used"),
    (r"gluon_matmul:\d+ b_slots = .*: SLOTS \+ 1", "one slot more than is used"),
    (r"gluon_attention:\d+ v_slots = .*: SLOTS \+ 1", "one slot more than is used"),
    (
        r"gluon_attention:\d+ k_slots = .*: SLOTS - 1",
        "the partitions read the ring's size from this shape",
    ),
    (r"ws_matmul:\d+ a_slots = .*: SLOTS \+ 1", "two slots more than are used"),
    (r"ring:\d+ slots = .*: SLOTS - 1", "the partitions read the ring's size from this shape"),
    (
        r"ws_matmul:\d+ b_slots = .*: SLOTS - 1",
        "the partitions read the ring's size from this shape",
    ),
    (r"init\(.*: after init", "no partition runs yet"),
    (r"init\(.*: another slot's", "the loop initialises the same barriers in another order"),
    (
        r"(ring:71|gluon_matmul:57|ws_matmul:117|moid_attention:68|n_attention:315) fence",
        "Gluon's tutorials have none there, see above",
    ),
]
BARRIERS = ("wait", "arrive", "expect", "init")
QUEUES = ("wait_group", "store_wait", "warpgroup_mma_wait")
OTHERS = ("commit_group", "fence_async_shared")
# What a synchronisation is moved over.
DOES = (
    *BARRIERS, *QUEUES, *OTHERS, "load", "store", "warpgroup_mma", "fetch", "warp_specialize",
    "async_copy_global_to_shared", "async_copy_shared_to_global",
)  # fmt: skip
# The name of a ring's barriers.
BARRIER = re.compile(r"(\w_)?(full|empty|turn)")
TWICE = ("arrive", "expect", "commit_group")


class Mutant(NamedTuple):
    """A wrong version of a solution.

    line: of the synchronisation that is edited; call: its text, on one line
    edit: what is done to it
    """

    puzzle: str
    line: int
    call: str
    edit: str
    source: str

    @property
    def name(self) -> str:
        """What tells it from the others of its puzzle."""
        return f"{self.line} {self.call}: {self.edit}"

    def __str__(self) -> str:
        return f"{self.puzzle}:{self.name}"


def mutants(puzzle: str) -> Iterator[Mutant]:
    """Yield the wrong versions of a solution, in the order of its lines, each once."""
    text = (paths.SOLUTIONS / CHAPTER / f"{puzzle}.py").read_text()
    for number, function in enumerate(ast.parse(text).body):
        if isinstance(function, ast.FunctionDef) and function.decorator_list:
            programs = {_program(function)}
            edits = [*_of_calls(function, text), *_of_slots(function)]
            for at, edit, changes in sorted(edits, key=lambda it: it[0].lineno):
                source = _changed(text, changes)
                program = _program(ast.parse(source).body[number])
                if program not in programs:
                    programs.add(program)
                    yield Mutant(puzzle, at.lineno, _line(at, text), edit, source)


@functools.cache
def all_mutants() -> dict[tuple, Mutant]:
    """Return those of all solutions by what the page tells of them: all but the source."""
    return {mutant[:4]: mutant for puzzle in SIZES for mutant in mutants(puzzle)}


def _program(function: ast.AST) -> str:
    """Return what a function does, without layout and lines that do nothing."""
    return " ".join(ast.unparse(function).replace(" pass\n", "\n").split())


Edit = tuple[ast.AST, str, list[tuple[ast.AST, str]]]


def _of_calls(function: ast.FunctionDef, text: str) -> Iterator[Edit]:
    for body in _bodies(function):
        for number, statement in enumerate(body):
            call = getattr(statement, "value", None)
            yield from ((statement, *it) for it in _of_counts(call))
            if not isinstance(call, ast.Call):
                continue
            name = ast.unparse(call.func).rpartition(".")[2]
            if name in (*BARRIERS, *QUEUES, *OTHERS):
                yield statement, "left out", [(statement, "pass")]
                yield from _moved(function, body, number, text)
                yield from ((statement, *it) for it in _of_arguments(name, call))
            if name in TWICE:
                twice = f"{_text(statement, text)}; {_text(statement, text)}"
                yield statement, "twice", [(statement, twice)]
            for argument in (call, *call.args):
                yield from ((statement, *it) for it in _of_barrier(argument, function))


def _moved(function: ast.FunctionDef, body: list, at: int, text: str) -> Iterator[Edit]:
    """Yield the moves over the next thing done, up and down, unless a name has no value then."""
    moved = body[at]
    for way, passed in (("before", body[:at][::-1]), ("after", body[at + 1 :])):
        number = next((n for n, it in enumerate(passed) if _done(it)), len(passed))
        over = passed[: number + 1]
        if number == len(passed) or not all(isinstance(it, (ast.Expr, ast.Assign)) for it in over):
            continue
        above = [moved] if way == "after" else over
        below = over if way == "after" else [moved]
        known = {it for it in _names(function, ast.Store) if it.lineno < above[-1].lineno}
        needed = {it.id for each in below for it in _names(each, ast.Load)}
        made = {it.id for each in above for it in _names(each, ast.Store)}
        if not made & needed - {it.id for it in known}:
            lines = [_text(over[-1], text), _text(moved, text)]
            joined = f"\n{' ' * moved.col_offset}".join(lines if way == "after" else lines[::-1])
            yield moved, f"{way} {_done(over[-1])}", [(moved, "pass"), (over[-1], joined)]


def _done(statement: ast.stmt) -> str:
    """Return the last call of a statement that does more than name a part, "" if there is none."""
    calls = [ast.unparse(it.func) for it in ast.walk(statement) if isinstance(it, ast.Call)]
    names = [it.rpartition(".")[2] for it in calls]
    return next((it for it in names if it in DOES), "for" * isinstance(statement, ast.For))


def _of_arguments(name: str, call: ast.Call) -> Iterator[tuple[str, list]]:
    """Yield phases, counts and bytes that are off."""
    given = {it.arg: it.value for it in call.keywords}
    if name == "wait":
        phase = ast.unparse(call.args[1])
        yield "the other phase", [(call.args[1], f"({phase}) ^ 1")]
        yield "a phase that never flips", [(call.args[1], "0")]
    elif name == "expect":
        size = ast.unparse(call.args[1])
        yield "half of the bytes", [(call.args[1], f"({size}) // 2")]
        yield "twice the bytes", [(call.args[1], f"({size}) * 2")]
    elif name in QUEUES or "count" in given:
        number = given.get("count") or given.get("num_outstanding") or call.args[0]
        yield "one more", [(number, f"{ast.unparse(number)} + 1")]
        if not (isinstance(number, ast.Constant) and number.value == (name not in QUEUES)):
            yield "one less", [(number, f"{ast.unparse(number)} - 1")]
    if "pred" in given:
        yield "always", [(given["pred"], "True")]


def _of_counts(made: ast.AST | None) -> Iterator[tuple[str, list]]:
    """Yield counts that are off by one, of several barriers that one call makes."""
    for number, call in enumerate(made.elts if isinstance(made, ast.Tuple) else [made], 1):
        match call:
            case ast.Call(func=ast.Name("barriers"), args=[_, ast.Constant(int(count)) as given]):
                which = f" (call {number})" if isinstance(made, ast.Tuple) else ""
                yield f"one more{which}", [(given, str(count + 1))]
                if count > 1:
                    yield f"one less{which}", [(given, str(count - 1))]


def _of_barrier(argument: ast.expr, function: ast.FunctionDef) -> Iterator[tuple[str, list]]:
    """Yield another slot's barrier, and the other barrier of the slot."""
    match argument:
        case ast.Call(func=ast.Attribute(value=ast.Name(name)), args=[index]) if (
            made := BARRIER.fullmatch(name)
        ):
            for other in _other_barriers(*made.groups(default="")):
                uses = (getattr(it, "id", getattr(it, "arg", "")) for it in ast.walk(function))
                if other in uses:
                    yield f"{other}, not {name}", [(argument.func.value, other)]
            if not isinstance(index, ast.Constant):
                yield "another slot's", [(index, f"({ast.unparse(index)} + 1) % {name}.shape[0]")]


def _other_barriers(ring: str, kind: str) -> list[str]:
    """Return the other barrier of a slot, and the same one of the ring beside it."""
    others = {"full": [ring + "empty"], "empty": [ring + "full"]}.get(kind, [])
    return others + [it + kind for it in ("k_", "v_") if ring in ("k_", "v_") and it != ring]


def _of_slots(function: ast.FunctionDef) -> Iterator[Edit]:
    """Yield numbers of slots that are off by one, wherever they are used."""
    for statement in ast.walk(function):
        if isinstance(statement, (ast.Expr, ast.Assign, ast.For)):
            inner = [it for part in getattr(statement, "body", ()) for it in ast.walk(part)]
            used = [
                it for it in _names(statement, ast.Load) if it.id == "SLOTS" and it not in inner
            ]
            for number, name in enumerate(used, 1):
                which = f" (use {number})" if len(used) > 1 else ""
                for other in ("SLOTS + 1", "SLOTS - 1"):
                    yield statement, f"{other}{which}", [(name, f"({other})")]


def _bodies(function: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(function):
        if isinstance(node, (ast.FunctionDef, ast.For, ast.If)):
            yield node.body
            yield getattr(node, "orelse", [])


def _names(node: ast.AST, context: type) -> list[ast.Name]:
    found = [it for it in ast.walk(node) if isinstance(it, ast.Name)]
    return [it for it in found if isinstance(it.ctx, context)]


def _text(node: ast.AST, text: str) -> str:
    begin, end = _span(node, text)
    return text[begin:end]


def _line(node: ast.AST, text: str) -> str:
    first = _text(node, text).partition(":\n")[0]
    return re.sub(r"\s+", " ", first).replace("( ", "(").replace(" )", ")")


def _changed(text: str, changes: list[tuple[ast.AST, str]]) -> str:
    changed = text
    for node, new in sorted(changes, key=lambda it: (-it[0].lineno, -it[0].col_offset)):
        begin, end = _span(node, text)
        changed = changed[:begin] + new + changed[end:]
    return changed


def _span(node: ast.AST, text: str) -> tuple[int, int]:
    starts = _starts(text)
    begin = starts[node.lineno - 1] + node.col_offset
    return begin, starts[node.end_lineno - 1] + node.end_col_offset


@functools.cache
def _starts(text: str) -> list[int]:
    """Return where each line begins."""
    return [0, *itertools.accumulate(map(len, text.splitlines(keepends=True)))]


def load(source: str, path: Path) -> ModuleType:
    """Import a source as the file of this path, which is written."""
    path.write_text(source)
    linecache.checkcache(str(path))
    forget(path)
    return paths.load(path)


def run(module: ModuleType, puzzle: str, seed: int) -> None:
    """Call a solution in one order. Raises Wrong, or whatever else it raises."""
    from kernelgauge.memory.watch import Watch

    generator = torch.Generator().manual_seed(seed)
    reference = getattr(paths.load(paths.ROOT / "reference" / f"{CHAPTER}.py"), puzzle)
    module.multiprocessors = lambda device: 1
    calls = [SIZES[puzzle], *([FEW[puzzle]] if puzzle in FEW else [])]
    for sizes, bound in itertools.product(calls, BOUNDS.get(puzzle, (0,))):
        makes = [torch.randint(-4, 5, size, generator=generator) for size in sizes]
        inputs = [it.half() if len(makes) > 1 else it.float() for it in makes]
        expected = reference(*(it.float() for it in makes)).to(inputs[0].dtype)
        allowed = 2e-3 * expected.abs().max().item()
        module.MANY = bound
        with Watch(order="shuffled", seed=seed):
            result = getattr(module, puzzle)(*inputs)
        torch.testing.assert_close(result, expected, rtol=0, atol=allowed)


class Verdict(NamedTuple):
    """What is found in several orders.

    kinds: in how many of them each kind of fault, "" for none
    named: the barrier, buffer or operation that each message is about
    """

    kinds: collections.Counter
    named: collections.Counter


def verdict(mutant: Mutant, path: Path, orders: Iterable[int]) -> Verdict:
    """Run a mutant in orders of these seeds."""
    from kernelgauge.core.verdict import Wrong

    found = Verdict(collections.Counter(), collections.Counter())
    module = load(mutant.source, path)
    for seed in orders:
        kind = ""
        try:
            run(module, mutant.puzzle, seed)
        except Wrong as wrong:
            kind = wrong.fault.kind
            found.named.update(_named(wrong.fault.said[0].values))
        except AssertionError:
            kind = "wrong-result"
            found.named["the result"] += 1
        found.kinds[kind] += 1
    return found


def _named(values: Mapping[str, Any]) -> set[str]:
    if "waits" in values:
        return {barrier for _, _, barrier, *_ in values["waits"]}
    for name in ("barrier", "buffer", "operation", "product"):
        if name in values:
            return {values[name]}
    found = re.findall(r"index \d+ of (\w+)|got <class '.*(warpgroup_mma_accumulator)", str(values))
    return {one or other for one, other in found}


def reason(mutant: Mutant) -> str:
    """Return why a mutant is accepted, "" where it is not."""
    said = str(mutant)
    return next((why for pattern, why in ACCEPTED if re.search(pattern, said)), "")


def row(mutant: Mutant, found: Verdict) -> str:
    """Return a mutant's row of the table."""
    caught = ", ".join(f"{kind} {n}" for kind, n in found.kinds.most_common() if kind)
    caught += f" of {found.kinds.total()}"
    names = ", ".join(name for name, _ in found.named.most_common(2))
    told = f"{caught} | {names}" if found.named else f"accepted: {reason(mutant)} |"
    return f"| {mutant.line} | `{mutant.call}` | {mutant.edit} | {told} |"


def main(orders: int = ORDERS) -> int:
    """Print the tables. Returns 1 if a mutant is right, or seems so, and nothing says why."""
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        for puzzle in SIZES:
            print(f"\n## {puzzle}\n")
            print("| line | synchronisation | edit | found as, in how many orders | about |")
            print("|---:|---|---|---|---|")
            for mutant in mutants(puzzle):
                found = verdict(mutant, Path(folder) / "wrong.py", range(orders))
                print(row(mutant, found), flush=True)
                if (found.kinds[""] == orders) != bool(reason(mutant)):
                    missed.append(mutant)
    for mutant in missed:
        print(mutant, file=sys.stderr)
    return bool(missed)


def right(orders: int) -> int:
    """Run the solutions and the natural answers. Raises what the first wrong one raises."""
    with tempfile.TemporaryDirectory() as folder:
        for answers in (paths.SOLUTIONS, paths.ROOT / "tests/alternatives/natural"):
            for puzzle in SIZES:
                path = answers / CHAPTER / f"{puzzle}.py"
                module = load(path.read_text(), Path(folder) / "right.py")
                for seed in range(orders):
                    run(module, puzzle, seed)
                print(f"{path.relative_to(paths.ROOT)}: right in {orders} orders", flush=True)
    return 0


if __name__ == "__main__":
    os.environ["TRITON_INTERPRET"] = "1"
    from kernelgauge import setup

    setup.install()
    option, *numbers = sys.argv[1:] or [""]
    sys.exit(right(int(numbers[0])) if option == "--right" else main(int(option or ORDERS)))
