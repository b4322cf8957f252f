"""Single small edits of a subject's source, as small as slips are, the likeliest first.

Each is made in the text itself, so that all other lines stay as they are.
"""

from __future__ import annotations

import ast
import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kernelgauge.words.fault import Note, note

# What names held while their function ran, the sort first, by function and name; one may stand for
# another of its function that holds the same kind.
Kind = tuple[str, object]
Kinds = Mapping[tuple[str, str], Kind]
# No tiles.
FLOAT, INTEGER, POINTER = ("float", ()), ("integer", ()), ("pointer", ())

# The names of inputs that seem to be read in wrong places, or the line of a load that does; STORES
# where results are stored so.
STORES = "stores"
Doubted = Collection[str] | int

REDUCTIONS = {"sum", "max", "min", "argmax", "argmin", "cumsum", "cumprod", "sort", "flip"}
# What may be written for another function of as many arguments.
PARTNERS = {
    "exp": ["exp2"],
    "exp2": ["exp"],
    "log": ["log2"],
    "log2": ["log"],
    "sqrt": ["rsqrt"],
    "rsqrt": ["sqrt"],
    "max": ["min", "sum"],
    "min": ["max"],
    "sum": ["max"],
    "maximum": ["minimum"],
    "minimum": ["maximum"],
    "floor": ["ceil"],
    "ceil": ["floor"],
    "sin": ["cos"],
    "cos": ["sin"],
}
# Calls that may be one too many: their first argument may stand for them, or their second, too.
WRAPPERS = {
    "abs", "ceil", "clamp", "exp", "exp2", "fdiv", "floor", "log", "log2", "maximum", "minimum",
    "rsqrt", "sigmoid", "sqrt", "where",
}  # fmt: skip
SIGNS: Mapping[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
ROOTS = {"sqrt", "rsqrt"}
# What is no number of the formula.
SHAPES = {"arange", "zeros", "full", "reshape", "broadcast_to", "make_block_ptr", "static_range"}
COMPARED = {
    ast.Lt: (ast.LtE, ast.GtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.Gt, ast.GtE),
    ast.Gt: (ast.GtE, ast.LtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.Lt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
}
OTHERS = "0.0", 'float("-inf")', 'float("inf")'
# What changes nothing in a reduction.
FILLERS = {"sum": "0.0", "max": OTHERS[1], "min": OTHERS[2]}
AXES = "0", "1"
# The highest rank of usual slips.
LIKELY = 1
# So much sooner comes what may place the accesses that seem to be wrong.
SOONER = 5
# Longer code is not quoted.
MAX_QUOTED = 90


@dataclass(frozen=True)
class Edit:
    """One edit.

    text: the whole file with it
    rank: that of a likelier one is lower; up to LIKELY it is a usual slip
    lines: the first and the last line that it changes
    said: what it is, for words
    leaves_out: whether it is about what lanes hold that a mask leaves out
    places: how near to the accesses in doubt it is, 1 for the nearest lines, and 0 if it is not
        about where they are
    """

    text: str
    rank: int
    lines: tuple[int, int]
    said: Note
    leaves_out: bool = False
    places: int = 0


def edits(text: str, functions: Sequence[str], kinds: Kinds, doubted: Doubted = ()) -> list[Edit]:
    """Return edits of these functions, the likeliest first, each text once.

    functions: those to edit, as `reached` returns them
    doubted: what seems to be accessed in wrong places
    """
    source = _Source(text)
    named = _defined(source.tree)
    found = [
        it for name in functions for it in _Function(source, named[name], kinds, doubted).edits()
    ]
    first: dict[str, Edit] = {}
    for it in sorted(found, key=lambda it: (it.rank - SOONER * (it.places > 0), it.places)):
        first.setdefault(it.text, it)
    first.pop(text, None)
    return [*first.values()]


def reached(text: str, functions: Iterable[str]) -> list[str]:
    """Return these functions of a file, and those that they call."""
    named = _defined(ast.parse(text))
    found: dict[str, None] = {}
    left = [*functions]
    while left:
        name = left.pop(0)
        if name in named and name not in found:
            found[name] = None
            calls = (it for it in ast.walk(named[name]) if isinstance(it, ast.Call))
            left[:0] = [it for it in map(_called, calls) if it in named]
    return [*found]


def kernels_of(text: str) -> list[str]:
    """Return the functions of a file that have a decorator, as kernels do."""
    return [name for name, it in _defined(ast.parse(text)).items() if it.decorator_list]


def _defined(tree: ast.AST) -> dict[str, ast.FunctionDef]:
    return {it.name: it for it in ast.walk(tree) if isinstance(it, ast.FunctionDef)}


class _Source:
    """The text of a file, and its syntax tree."""

    def __init__(self, text: str):
        self.text, self.tree = text, ast.parse(text)
        self._bytes = text.encode()
        lines = self._bytes.splitlines(keepends=True)
        self._starts = [0, *itertools.accumulate(map(len, lines))]

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return where a node begins and ends."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        first = self._starts[node.lineno - 1] + node.col_offset
        return first, self._starts[node.end_lineno - 1] + node.end_col_offset

    def of(self, node: ast.expr | ast.stmt) -> str:
        first, last = self.span(node)
        return self._bytes[first:last].decode()

    def with_parts(self, parts: Iterable[tuple[int, int, str]]) -> str:
        """Return the text with other code in these places."""
        made = self._bytes
        for first, last, code in sorted(parts, reverse=True):
            made = made[:first] + code.encode() + made[last:]
        return made.decode()

    def replaced(self, shown: ast.expr, node: ast.expr, code: str) -> str:
        """Return the code of an expression with other code in the place of a part of it.

        With parentheses around what is put in, or already there, only where they are needed.
        """
        begin, end = self.span(shown)
        first, last = self.span(node)
        before, after = (self._bytes[a:b].decode() for a, b in ((begin, first), (last, end)))
        made = f"{before}({code}){after}"
        plain = f"{before}{code}{after}"
        meant = _dumped(made)
        if before.endswith("(") and after.startswith(")"):
            bare = f"{before[:-1]}{code}{after[1:]}"
            if _dumped(bare) == meant:
                return bare
        return plain if _dumped(plain) == meant else made


def _dumped(code: str) -> str:
    try:
        return ast.dump(ast.parse(f"({code})", mode="eval"))
    except SyntaxError:
        return ""


class _Function:
    """The edits of one function."""

    def __init__(
        self,
        source: _Source,
        function: ast.FunctionDef,
        kinds: Kinds,
        doubted: Doubted,
    ):
        self.source, self.function = source, function
        self.is_kernel = bool(function.decorator_list)
        self.kinds = {name: kind for (of, name), kind in kinds.items() if of == function.name}
        self.parents = {
            child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)
        }
        self.placing, self.in_doubt = self._placing(doubted), isinstance(doubted, (str, int))

    def _placing(self, doubted: Doubted) -> dict[int, int]:
        """Return the lines that say where the accesses in doubt are, with how near they are.

        A pointer to a tensor is called as the tensor is, or begins so: x_ptr. Lines that place
        other loads, too, are not in doubt.
        """
        known = {it for it, kind in self.kinds.items() if kind == POINTER}
        if doubted is STORES:
            return self._lines_that_place(known, ("store", "atomic_add"))
        if isinstance(doubted, int):
            return self._lines_that_place(known, ("load",), doubted)
        named = {it for it in known if any(it == x or it.startswith(f"{x}_") for x in doubted)}
        lines = self._lines_that_place(named, ("load",))
        others = self._lines_that_place(known - named, ("load",))
        return {line: near for line, near in lines.items() if line not in others}

    def _lines_that_place(
        self, pointers: set[str], accesses: Collection[str], line: int = 0
    ) -> dict[int, int]:
        """Return the lines that make the addresses of these pointers, in accesses or functions.

        line: that of the only access, if it is not 0
        """
        pointers = {*pointers}
        parts: list[ast.AST] = []
        for step in self._inside():
            moves = isinstance(step, SIMPLE) and not _loads(step) and _names(step) & pointers
            if moves and (moved := _stored(step)):
                pointers |= moved
                parts.append(step)
        for call in (it for it in self._inside() if isinstance(it, ast.Call)):
            is_own = isinstance(call.func, ast.Name)
            if line and line not in range(call.lineno, (call.end_lineno or call.lineno) + 1):
                continue
            if is_own or _called(call) in accesses:
                given = call.args if is_own else call.args[:1]
                addresses = [it for it in given if _names(it) & pointers]
                masks = [it.value for it in call.keywords if addresses and it.arg == "mask"]
                parts += addresses + masks
        nodes = [it for part in parts for it in ast.walk(part)]
        lines = {it.lineno: 1 for it in nodes if isinstance(it, (ast.expr, ast.stmt))}
        names = {it.id for it in nodes if isinstance(it, ast.Name)} - pointers
        near = 1
        while made := [it for it in self._steps() if it[0] not in lines and it[1] & names]:
            lines.update((line, near) for line, *_ in made)
            names.update(*(used for *_, used in made))
            near += 1
        return lines

    def _steps(self) -> Iterator[tuple[int, set[str], set[str]]]:
        """Yield the lines that give names their values: those names, and those that are used."""
        for it in self._inside():
            if isinstance(it, SIMPLE):
                yield it.lineno, _stored(it), _names(it)
            elif isinstance(it, ast.For):
                yield it.lineno, _stored(it.target), _names(it.iter)

    def edits(self) -> Iterator[Edit]:
        """Yield edits.

        A result is wrong by its formula sooner than by whole numbers, which are mostly addresses;
        an access is in the wrong place by these.
        Those of a launcher are tiles and grids: with others a fault shows elsewhere, or nowhere.
        """
        for node in self._inside():
            is_number = self._is_number(node)
            if self.is_kernel or is_number or isinstance(node, ast.Name):
                for edit in self._of(node):
                    likely = is_number is not self.in_doubt or edit.rank <= LIKELY
                    rank = edit.rank if likely else edit.rank + 2
                    yield replace(edit, rank=rank, places=self.placing.get(edit.lines[0], 0))
        for body in self._bodies():
            yield from self._of_order(body)

    def _is_number(self, node: ast.AST) -> bool:
        """Return whether a float stands in a node, or in the operation that it belongs to."""
        around: ast.AST = node
        if isinstance(node, ast.expr) and not isinstance(node, ast.Name):
            around = self._quoted(node)
        return "float" in self._sorts(_names(around))

    def _loads_integers(self, call: ast.Call) -> bool:
        parent = self.parents.get(call)
        return parent is not None and "integer" in self._sorts(_stored(parent))

    def _sorts(self, names: Iterable[str]) -> set[str]:
        return {self.kinds[it][0] for it in names if it in self.kinds}

    def _is_of_scalars(self, node: ast.AST) -> bool:
        """Return whether all that stands in a node is a whole number, and no tile."""
        return {self.kinds.get(it) for it in _names(node) - {"tl"}} <= {INTEGER}

    def _of(self, node: ast.AST) -> Iterator[Edit]:
        if isinstance(node, ast.Call):
            yield from self._of_call(node)
        elif isinstance(node, ast.Compare):
            yield from self._of_comparison(node)
        elif isinstance(node, ast.BinOp):
            yield from self._of_operation(node)
        elif isinstance(node, ast.UnaryOp):
            yield from self._of_sign(node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield from self._of_name(node)
        elif isinstance(node, ast.Constant):
            yield from self._of_constant(node)
        elif isinstance(node, ast.AugAssign):
            yield from self._of_step(node)
        elif isinstance(node, ast.For):
            yield from self._of_loop(node)

    def _inside(self) -> Iterator[ast.AST]:
        for statement in self.function.body:
            yield from ast.walk(statement)

    def _bodies(self) -> Iterator[list[ast.stmt]]:
        for node in [self.function, *self._inside()]:
            for field in ("body", "orelse"):
                body = getattr(node, field, None)
                if isinstance(body, list):
                    yield body

    def _edit(self, rank: int, node: ast.expr, code: str) -> Edit | None:
        """Return the edit that puts this code in the place of an expression."""
        shown = self._quoted(node)
        made = self.source.replaced(shown, node, code)
        own = self.source.of(shown)
        if shown is not node and (len(own) > MAX_QUOTED or "\n" in own):
            return None
        first, last = self.source.span(shown)
        text = self.source.with_parts([(first, last, made)])
        said = note("repaired", line=node.lineno, source=own, instead=made)
        return Edit(text, rank, (node.lineno, node.end_lineno or node.lineno), said)

    def _quoted(self, node: ast.expr) -> ast.expr:
        """Return the smallest operation around what is edited, for a reader to recognise it."""
        outer: ast.AST = node
        while not isinstance(outer, (ast.BinOp, ast.Call, ast.Compare, ast.Subscript)) or (
            outer is node and not isinstance(node, (ast.Call, ast.BinOp, ast.Compare))
        ):
            parent = self.parents.get(outer)
            if parent is None or isinstance(parent, ast.stmt):
                return outer if isinstance(outer, ast.expr) else node
            outer = parent
        assert isinstance(outer, ast.expr)
        return outer

    def _all(self, rank: int, node: ast.expr, codes: Iterable[str]) -> Iterator[Edit]:
        for code in codes:
            if edit := self._edit(rank, node, code):
                yield edit

    def _of_call(self, call: ast.Call) -> Iterator[Edit]:
        name, of = _called(call), self.source.of
        for keyword in call.keywords:
            value = of(keyword.value)
            if name == "load" and keyword.arg == "other" and not self._loads_integers(call):
                yield from map(_leaving_out, self._all(0, keyword.value, OTHERS))
            elif keyword.arg == "axis" and name in REDUCTIONS:
                yield from self._all(0, keyword.value, AXES)
            elif value in ("True", "False"):
                yield from self._all(3, keyword.value, [str(value != "True")])
        function, arguments = call.func, call.args
        if name == "atomic_add":
            yield from self._by_one_program(call)
        if name == "range" and self.is_kernel and len(arguments) == 3:
            step = self._operand(arguments[2])
            sizes = (f"{step} * {it}" for it in self._alike(INTEGER))
            yield from self._all(1, arguments[2], [f"{step} * tl.num_programs(0)"])
            yield from self._all(2, arguments[2], sizes)
        if name in REDUCTIONS and len(arguments) == 2:
            yield from self._all(0, arguments[1], AXES)
        elif name in REDUCTIONS and len(arguments) == 1 and not call.keywords:
            codes = (f"{of(function)}({of(arguments[0])}, axis={axis})" for axis in AXES)
            yield from self._all(0, call, codes)
        if name in FILLERS and isinstance(function, ast.Attribute) and arguments:
            masked = self._masked(function.value, arguments[0], name)
            yield from map(_leaving_out, self._all(1, arguments[0], masked))
        if name in PARTNERS and isinstance(function, ast.Attribute):
            given = of(call)[len(of(function)) :]
            partners = (f"{of(function.value)}.{it}{given}" for it in PARTNERS[name])
            yield from self._all(1, call, partners)
        if name in WRAPPERS:
            rank = 1 if name in ("clamp", "maximum", "minimum", "where", "abs") else 2
            values = arguments[1:] if name == "where" else arguments[:2]
            yield from self._all(rank, call, map(of, values))
        if name == "where" and len(arguments) == 3:
            condition, one, other = map(of, arguments)
            yield from self._all(2, call, [f"{of(function)}({condition}, {other}, {one})"])
        if name == "to" and isinstance(function, ast.Attribute):
            yield from self._all(2, call, [of(function.value)])
        inner = arguments[0] if len(arguments) == 1 else None
        if name in ROOTS and isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Add):
            yield from self._all(1, call, [f"{of(function)}({of(inner.left)}) + {of(inner.right)}"])

    def _by_one_program(self, call: ast.Call) -> Iterator[Edit]:
        """Yield an atomic of the first programs along one axis of the grid alone."""
        code, first = self.source.of(call), [f"tl.program_id({axis}) == 0" for axis in range(3)]
        mask = next((it.value for it in call.keywords if it.arg == "mask"), None)
        if mask is not None:
            own = self._operand(mask)
            yield from self._all(1, mask, (f"{own} & ({it})" for it in first))
        elif code.endswith(")"):
            yield from self._all(1, call, (f"{code[:-1]}, mask={it})" for it in first))

    def _masked(self, library: ast.expr, node: ast.expr, name: str) -> Iterator[str]:
        """Yield what is reduced with a constant in the lanes that a mask leaves out."""
        for mask, kind in self.kinds.items():
            if kind[0] == "bool" and kind[1]:
                where = f"{self.source.of(library)}.where"
                yield f"{where}({mask}, {self.source.of(node)}, {FILLERS[name]})"

    def _of_comparison(self, node: ast.Compare) -> Iterator[Edit]:
        if len(node.ops) != 1 or type(node.ops[0]) not in COMPARED:
            return
        for number, other in enumerate(COMPARED[type(node.ops[0])]):
            made = ast.unparse(ast.Compare(node.left, [other()], node.comparators))
            yield from self._all(0 if number == 0 else 2, node, [made])
        for side in (node.left, node.comparators[0]):
            if self._is_number(side):
                own, floats = self._operand(side), self._alike(FLOAT)
                yield from self._all(2, side, (f"{own} * {it}" for it in floats))
            elif isinstance(side, ast.Name):
                yield from self._all(2, side, [f"2 * {side.id}"])

    def _of_operation(self, node: ast.BinOp) -> Iterator[Edit]:
        op, one, other = type(node.op), self._operand(node.left), self._operand(node.right)
        others: dict[type, list[str]] = {
            ast.Add: [f"{one} - {other}", f"{one} * {other}"],
            ast.Sub: [f"{other} - {one}", f"{one} + {other}"],
            ast.Mult: [f"{one} / {other}"] if self._is_number(node) else [],
            ast.Div: [f"{one} * {other}", f"{other} / {one}"],
            ast.Mod: [f"{one} // {other}"],
            ast.FloorDiv: [f"{one} % {other}", f"({one} + {other} - 1) // {other}"],
            ast.BitAnd: [f"{one} | {other}"],
            ast.BitOr: [f"{one} & {other}"],
        }
        if op in (ast.Mod, ast.FloorDiv):
            others[op] += [
                f"{one} {sign} {it}" for sign in ("//", "%") for it in self._alike(INTEGER)
            ]
        if op in (ast.Add, ast.Sub) and self._is_of_scalars(node):
            others[op] += [f"{self.source.of(node)} - 1", f"{self.source.of(node)} + 1"]
        alone = self.source.of(node.left), self.source.of(node.right)
        yield from self._all(2, node, [*others.get(op, ()), *alone])
        yield from self._all(1, node, self._around(node))
        yield from self._all(1, node, self._rearranged(node))

    def _rearranged(self, node: ast.BinOp) -> Iterator[str]:
        """Yield what parentheses that end elsewhere would make of an operation."""
        sign = SIGNS.get(type(node.op))
        if sign is None:
            return
        left, right = node.left, node.right
        one, other = self._operand(left), self._operand(right)
        if sign in "+-":
            yield from self._moved_in(left, "", f" {sign} {other}")
            yield from self._moved_in(right, f"{one} {sign} ", "")
            return
        if isinstance(left, ast.Call):
            yield from self._within(left, f" {sign} {other}")
        if isinstance(left, ast.BinOp) and (inner := SIGNS.get(type(left.op), "*")) in "+-":
            first, second = self._operand(left.left), self._operand(left.right)
            yield f"{first} {sign} {other} {inner} {second}"
            yield f"{first} {inner} {second} {sign} {other}"
        if isinstance(right, ast.BinOp) and (inner := SIGNS.get(type(right.op), "*")) in "+-":
            first, second = self._operand(right.left), self._operand(right.right)
            yield f"{one} {sign} {first} {inner} {second}"

    def _moved_in(self, term: ast.expr, before: str, after: str) -> Iterator[str]:
        """Yield a quotient, a product or a root with what is added to it inside."""
        of = self.source.of
        if isinstance(term, ast.BinOp) and (sign := SIGNS.get(type(term.op), "+")) in "*/":
            yield f"({before}{of(term.left)}{after}) {sign} {self._operand(term.right)}"
        if isinstance(term, ast.Call) and _called(term) in ROOTS and len(term.args) == 1:
            yield f"{of(term.func)}({before}{of(term.args[0])}{after})"

    def _operand(self, node: ast.expr) -> str:
        """Return the code of an operand, in parentheses if it is an operation itself."""
        code = self.source.of(node)
        return f"({code})" if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare)) else code

    def _around(self, node: ast.expr) -> Iterator[str]:
        """Yield what stands elsewhere around the same operation."""
        own = ast.dump(node)
        for other in self._inside():
            if not isinstance(other, ast.Call) or _called(other) in ("load", "store"):
                continue
            if any(ast.dump(it) == own and it is not node for it in other.args):
                yield self.source.of(other)

    def _within(self, call: ast.Call, code: str) -> Iterator[str]:
        """Yield a choice between two with an operation on one of them in place of both."""
        of = self.source.of
        chosen = {"where": 1, "maximum": 0, "minimum": 0}.get(_called(call))
        if chosen is None or call.keywords or len(call.args) != chosen + 2:
            return
        for number in (chosen, chosen + 1):
            given = [*map(of, call.args)]
            given[number] = self._operand(call.args[number]) + code
            yield f"{of(call.func)}({', '.join(given)})"

    def _of_sign(self, node: ast.UnaryOp) -> Iterator[Edit]:
        if isinstance(node.op, (ast.USub, ast.Not, ast.Invert)):
            yield from self._all(2, node, [self.source.of(node.operand)])

    def _of_name(self, node: ast.Name) -> Iterator[Edit]:
        parent = self.parents.get(node)
        if isinstance(parent, ast.Attribute) or node.id not in self.kinds:
            return
        if isinstance(parent, ast.Call) and parent.func is node:
            return
        if not self.is_kernel and not self._is_launched_with(node):
            # Of a grid, say, with which a fault may show elsewhere.
            return
        alike = self._alike(self.kinds[node.id])
        yield from self._all(2, node, (it for it in alike if it != node.id))
        if not self.is_kernel:
            slices = (it for it in self._inside() if isinstance(it, ast.Subscript))
            cut = [self.source.of(it.slice) for it in slices if isinstance(it.slice, ast.Slice)]
            yield from self._all(1, node, (f"{node.id}[{it}]" for it in dict.fromkeys(cut)))

    def _alike(self, kind: Kind) -> list[str]:
        return [name for name, it in self.kinds.items() if it == kind]

    def _is_launched_with(self, node: ast.Name) -> bool:
        call = self.parents.get(node)
        if isinstance(call, ast.keyword):
            call = self.parents.get(call)
        return isinstance(call, ast.Call) and isinstance(call.func, ast.Subscript)

    def _of_constant(self, node: ast.Constant) -> Iterator[Edit]:
        value, parent, call = node.value, self.parents.get(node), self._call_around(node)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return
        if isinstance(parent, ast.keyword) and parent.arg in ("axis", "other"):
            return
        if isinstance(parent, (ast.Slice, ast.Subscript)) or (call and _called(call) in SHAPES):
            return
        if isinstance(parent, ast.Call) and _called(parent) in REDUCTIONS:
            return
        half = value // 2 if isinstance(value, int) else value / 2
        others = [0, 1, -value, value + 1, value - 1, 2 * value, half]
        yield from self._all(2, node, (repr(type(value)(it)) for it in others))

    def _call_around(self, node: ast.AST) -> ast.Call | None:
        while (parent := self.parents.get(node)) is not None and not isinstance(parent, ast.stmt):
            if isinstance(parent, ast.Call):
                return parent
            node = parent
        return None

    def _of_step(self, node: ast.AugAssign) -> Iterator[Edit]:
        """Yield the other assignments to the same name: = for +=, and -= for it."""
        target, value = self.source.of(node.target), self.source.of(node.value)
        own = self.source.of(node)
        others = {ast.Add: ["-=", "="], ast.Sub: ["+="], ast.Mult: ["=", "/="], ast.Div: ["*="]}
        for mark in others.get(type(node.op), ()):
            made = f"{target} {mark} {value}"
            first, last = self.source.span(node)
            text = self.source.with_parts([(first, last, made)])
            said = note("repaired", line=node.lineno, source=own, instead=made)
            yield Edit(text, 2, _lines(node), said)

    def _of_loop(self, loop: ast.For) -> Iterator[Edit]:
        """Yield the size of the loop's tiles in place of a number by which something goes on."""
        if not isinstance(loop.iter, ast.Call) or _called(loop.iter) != "range":
            return
        calls = [it for it in ast.walk(loop.iter) if isinstance(it, ast.Call)]
        sizes = [it.args[1:2] for it in calls if _called(it) == "cdiv"]
        steps = [*loop.iter.args[2:], *itertools.chain(*sizes)]
        if not steps:
            return
        step, numbers = self._operand(steps[0]), defaultdict(list)
        for node in ast.walk(loop):
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
                for it in ast.walk(node.value):
                    if isinstance(it, ast.Constant) and type(it.value) is int and it.value > 1:
                        numbers[it.value].append(it)
        for number, nodes in numbers.items():
            lines = sorted({it.lineno for it in nodes})
            text = self.source.with_parts([(*self.source.span(it), step) for it in nodes])
            said = note("repaired-steps", lines=lines, number=number, loop=loop.lineno, step=step)
            yield Edit(text, 1, (lines[0], lines[-1]), said)

    def _of_order(self, body: list[ast.stmt]) -> Iterator[Edit]:
        for one, other in itertools.pairwise(body):
            if not isinstance(one, SIMPLE) or not (_stored(one) & _names(other)):
                # Another order is no other meaning.
                continue
            if isinstance(other, SIMPLE):
                yield self._swapped(one, other)
            elif isinstance(other, (ast.For, ast.While)) and not _loads(one):
                yield self._moved_into(one, other)

    def _swapped(self, one: ast.stmt, other: ast.stmt) -> Edit:
        of, span = self.source.of, self.source.span
        text = self.source.with_parts([(*span(one), of(other)), (*span(other), of(one))])
        said = note(
            "repaired-by-order",
            line=other.lineno,
            source=of(other).splitlines()[0],
            before=one.lineno,
            other=of(one).splitlines()[0],
        )
        return Edit(text, 1, (_lines(one)[0], _lines(other)[1]), said)

    def _moved_into(self, one: ast.stmt, loop: ast.For | ast.While) -> Edit:
        first = loop.body[0]
        begin, end = self.source.span(one)
        at = self.source.span(first)[0]
        indent = " " * first.col_offset
        code = self.source.of(one)
        text = self.source.with_parts([(begin, end, "pass"), (at, at, f"{code}\n{indent}")])
        said = note(
            "repaired-in-loop", line=one.lineno, source=code.splitlines()[0], loop=loop.lineno
        )
        return Edit(text, 2, (_lines(one)[0], loop.lineno), said)


SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)


def _leaving_out(edit: Edit) -> Edit:
    return replace(edit, leaves_out=True)


def _names(node: ast.AST) -> set[str]:
    return {it.id for it in ast.walk(node) if isinstance(it, ast.Name)}


def _loads(node: ast.AST) -> bool:
    return any(isinstance(it, ast.Call) and _called(it) == "load" for it in ast.walk(node))


def _stored(node: ast.AST) -> set[str]:
    names = (it for it in ast.walk(node) if isinstance(it, ast.Name))
    return {it.id for it in names if isinstance(it.ctx, ast.Store)}


def _lines(node: ast.stmt) -> tuple[int, int]:
    return node.lineno, node.end_lineno or node.lineno


def _called(call: ast.Call) -> str:
    """Return the last name of what is called."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
