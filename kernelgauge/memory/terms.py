"""How the address of an access was made: the terms of its offset, read from the kernel's source.

`y_ptr + cols[:, None] * N + rows[None, :]` has two terms: the index cols, of which each step moves
by N elements, and the index rows. What is read is taken for true only if the terms add up to the
very offsets of this access; otherwise nothing is said.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelgauge.memory.addresses import Region
from kernelgauge.memory.call_sites import ACCESS_CALLS, lines_of
from kernelgauge.memory.coordinates import Access, LaneCoordinates, integers
from kernelgauge.memory.mask_limits import ARITHMETIC, function_of
from kernelgauge.words.fault import Note, note

MAX_DEPTH = 24
# More scalars than these are not listed beside the expression that they stand in.
MAX_SCALARS = 4
# A longer expression is not repeated.
MAX_WIDTH = 100

# What a condition may be made of that is worked out from constexprs.
PLAIN: tuple[type[ast.AST], ...] = (ast.BoolOp, ast.UnaryOp, ast.Compare, ast.Name, ast.Constant)
PLAIN += (ast.boolop, ast.unaryop, ast.cmpop, ast.expr_context)

# Functions whose result depends on nothing but their arguments.
PURE = {"arange", "cast", "cdiv", "maximum", "max", "min", "minimum", "num_programs", "to", "where"}
PURE |= {"expand_dims", "broadcast_to", "int", "range", "static_range", "trans", "zeros", "full"}


class _Unknown(Exception):
    """The source does not say what something is."""


@dataclass(frozen=True)
class Term:
    """A part of an offset: an index, and by how many elements each of its steps moves.

    index: as the kernel writes it, without subscripts: cols
    values: int64, of the tile's shape
    factor, label: the elements of a step, and as the kernel writes them; 1 and "" if by none
    definition: what the index was set to: pid * BLOCK + tl.arange(0, BLOCK); "" if that is not
        known, or says no more than the index
    scalars: the numbers in it, by name
    node: the index in the source, None of steps that pointers took: a_ptrs += BLOCK_K
    """

    index: str
    values: np.ndarray
    factor: int
    label: str
    definition: str
    scalars: Mapping[str, int]
    node: ast.expr | None

    @property
    def is_loaded(self) -> bool:
        """Whether the index comes from memory."""
        return "load(" in self.definition

    def is_offset(self, strides: tuple[int, ...]) -> bool:
        """Whether what is taken for an index is made with strides itself."""
        steps = {step for step in strides if step > 1}
        return any("stride" in name or it in steps for name, it in self.scalars.items())

    def dimensions(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
        """Return the dimensions whose stride the index moves by, but not those of one element."""
        sizes, one = zip(shape, strides, strict=True), len(shape) == 1
        return [
            d for d, (size, step) in enumerate(sizes) if step == self.factor and (size > 1 or one)
        ]

    @property
    def is_tile(self) -> bool:
        """Whether the index differs between lanes."""
        return bool((self.values != self.values.flat[0]).any())

    def made(self, value: int) -> Note:
        """Return how the index was made that has this value in a lane."""
        names = list(self.scalars)[:MAX_SCALARS]
        return note(
            "index-is-made",
            index=self.index,
            value=value,
            definition=self.definition,
            scalars=[(name, self.scalars[name]) for name in names],
        )


def terms_of(access: Access, region: Region) -> list[Term]:
    """Return the terms of the offset into a tensor, [] where the source does not show them."""
    element = region.elements(access.pointers)
    reader = _Reader(access, region.strides)
    try:
        found = list(reader.terms(reader.pointer()))
        left = element - sum(term.values * term.factor for term in found)
        if found and left.any():
            found.append(reader.moved(left))
    except (_Unknown, ValueError, IndexError):
        return []
    return found


def placed(access: Access, region: Region) -> LaneCoordinates | None:
    """Find each lane's index in the tensor, None unless each term moves along one dimension.

    Nor where two of them may move along one each, of the same stride.
    """
    shape, strides = region.shape, region.strides
    found: dict[int, list[Term]] = {}
    for term in terms_of(access, region):
        if term.values[access.mask].any():
            dims = term.dimensions(shape, strides)
            if len(dims) != 1:
                return None
            found.setdefault(dims[0], []).append(term)
    if not found or any(len(its) > 1 and strides.count(strides[d]) > 1 for d, its in found.items()):
        return None
    zeros = np.zeros(access.pointers.shape, dtype=np.int64)
    index = [
        sum((term.values for term in found.get(dim, [])), zeros) if stride else None
        for dim, stride in enumerate(strides)
    ]
    axes = access.pointers.ndim
    names = {dim: {its[0].index: axes} for dim, its in found.items() if len(its) == 1}
    return LaneCoordinates(shape, index, {}, names)


def wrapped(access: Access, region: Region, bad: np.ndarray) -> Note | None:
    """Return which product of an offset passed 2**31 in a bad lane, if that is certain."""
    reader = _Reader(access, region.strides)
    try:
        found = list(reader.terms(reader.pointer()))
        total = sum((term.values * term.factor for term in found), np.zeros_like(access.mask, int))
    except (_Unknown, ValueError, IndexError):
        return None
    off = (total - region.elements(access.pointers))[bad]
    if not (off != 0).all() or (off % 2**32).any():
        return None
    for term in found:
        values = term.values[bad]
        first = int(np.abs(values * term.factor).argmax())
        value = int(values[first])
        if abs(value * term.factor) >= 2**31:
            return note(
                "product-passes-int32",
                index=term.index,
                value=value,
                factor=term.factor,
                label=term.label,
                product=value * term.factor,
            )
    return None


def in_program(
    access: Access, terms: list[Term], program: tuple[int, int, int]
) -> list[np.ndarray] | None:
    """Return the values of the indices in another program; None where that is not certain."""
    reader, found = _Reader(access), []
    for term in terms:
        try:
            if term.node is None:
                return None
            own = reader.value(term.node, access.program)
            other = reader.value(term.node, program)
            if not np.array_equal(np.broadcast_to(own, term.values.shape), term.values):
                return None
            found.append(np.broadcast_to(other, term.values.shape))
        except (_Unknown, ValueError, IndexError):
            return None
    return found


def _names_in(node: ast.AST | None) -> list[str]:
    return [it.id for it in ast.walk(node) if isinstance(it, ast.Name)] if node else []


def turns_of(access: Access, term: Term) -> tuple[str, str, int, int] | None:
    """Return what moves an index from turn to turn of a loop over tiles; None if not certain.

    That is the loop's variable, its step as the source has it, the step, and how far programs whose
    numbers along axis 0 are neighbours begin apart.
    """
    reader = _Reader(access)
    try:
        names, more = set[str](), {*_names_in(term.node)}
        while more:
            names |= more
            more = {it for name in more for it in _names_in(reader._last(name))} - names
        loops = [
            (it.target.id, it.iter.args)
            for it in ast.walk(reader.function or ast.Pass())
            if isinstance(it, ast.For)
            and isinstance(it.target, ast.Name)
            and it.target.id in names
            and isinstance(it.iter, ast.Call)
            and _name_of(it.iter.func) == "range"
            and len(it.iter.args) == 3
        ]
        if len(loops) != 1:
            return None
        loop, (first, _, step) = loops[0]
        begins = [_one(reader.value(first, (n, 0, 0))) for n in range(access.launch.grid[0])]
        apart = {later - one for one, later in itertools.pairwise(begins)}
        begun = _one(reader.value(ast.Name(loop, ast.Load())))
        if len(apart) != 1 or reader.axes(step) or begun != term.values.min():
            return None
        return loop, ast.unparse(step), _one(reader.value(step)), apart.pop()
    except _Unknown:
        return None


def program_axes(access: Access) -> set[int] | None:
    """Return the axes of the grid that the address depends on; None where that is not certain."""
    reader = _Reader(access)
    try:
        return reader.axes(reader.pointer())
    except _Unknown:
        return None


def _name_of(function: ast.expr) -> str:
    return getattr(function, "attr", "") or getattr(function, "id", "")


def _has_call(node: ast.AST, *names: str) -> bool:
    return any(isinstance(it, ast.Call) and _name_of(it.func) in names for it in ast.walk(node))


class _Reader:
    """Reads the source of the function that makes an access, with the values of its variables."""

    def __init__(self, access: Access, strides: tuple[int, ...] = ()):
        self.access, self.strides = access, strides
        self.function = function_of(access)

    def pointer(self) -> ast.expr:
        """Return the pointers of the access. Raises _Unknown."""
        names, line = ACCESS_CALLS[self.access.verb], self.access.site.line
        found = [
            node.args[0]
            for node in (ast.walk(self.function) if self.function else ())
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in names
            and ast.unparse(node.func.value) in ("tl", "triton.language")
            and line in lines_of(node)
            and node.args
        ]
        if len(found) != 1:
            raise _Unknown
        return found[0]

    def terms(self, node: ast.expr, sign: int = 1, depth: int = 0) -> Iterator[Term]:
        """Yield the terms that an expression is the sum of. Raises _Unknown."""
        if depth > MAX_DEPTH:
            raise _Unknown
        node = self._spread(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            yield from self.terms(node.left, sign, depth + 1)
            second = -sign if isinstance(node.op, ast.Sub) else sign
            yield from self.terms(node.right, second, depth + 1)
        elif (name := self._named(node)) and _is_pointer(self.access.variables.get(name)):
            # The pointer that the function was given is the tensor's first element.
            for it in (self._last(name), *self._added_once(name)):
                if it is not None:
                    yield from self.terms(_of_same_lanes(it, node), sign, depth + 1)
        elif name and (value := self._last(name)) is not None:
            parts = self._parts(_of_same_lanes(value, node), sign, depth + 1)
            if isinstance(node, ast.Subscript) and sum(it.is_tile for it in parts) < 2:
                # The number of a tile times its size is a part of an index, whatever the strides.
                parts = []
            yield from parts or [self._term(node, sign)]
        else:
            yield self._term(node, sign)

    def _named(self, node: ast.expr) -> str:
        """Return the name that an expression is, as it is or as name[:, None]; "" of any other."""
        if isinstance(node, ast.Subscript) and self._is_of_lanes(node):
            node = node.value
        return node.id if isinstance(node, ast.Name) else ""

    def _spread(self, node: ast.expr) -> ast.expr:
        """Return (a * b + c)[None, :] as a[None, :] * b[None, :] + c[None, :], without .to()."""
        if isinstance(node, ast.Call) and _name_of(node.func) == "to":
            assert isinstance(node.func, ast.Attribute)
            return self._spread(node.func.value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
            return ast.BinOp(self._spread(node.left), node.op, self._spread(node.right))
        if isinstance(node, ast.Subscript) and self._is_of_lanes(node):
            inner = self._spread(node.value)
            if isinstance(inner, ast.BinOp) and isinstance(inner.op, (ast.Add, ast.Sub, ast.Mult)):
                sides = (ast.Subscript(it, node.slice) for it in (inner.left, inner.right))
                left, right = (self._spread(it) for it in sides)
                return ast.BinOp(left, inner.op, right)
        return node

    def _added_once(self, name: str) -> Iterator[ast.expr]:
        """Yield what is added to a name outside of loops: `x_ptr += batch * stride`."""
        for node in self.function.body if self.function else ():
            if (
                isinstance(node, ast.AugAssign)
                and isinstance(node.op, ast.Add)
                and ast.unparse(node.target) == name
                and node.lineno < self.access.site.line
            ):
                yield node.value

    def _parts(self, value: ast.expr, sign: int, depth: int) -> list[Term]:
        """Return the terms of an offset that has a name, [] if what has the name is an index."""
        if not isinstance(self._bare(value), ast.BinOp):
            return []
        parts = list(self.terms(value, sign, depth))
        is_offset = any(abs(it.factor) > 1 and abs(it.factor) in self.strides for it in parts)
        return parts if is_offset or sum(it.is_tile for it in parts) > 1 else []

    def moved(self, by: np.ndarray) -> Term:
        """Return what was added to the pointers since they were set. Raises _Unknown.

        by: how many elements that makes for each lane
        """
        names = {*_names_in(self.pointer())}
        steps = [
            it
            for it in ast.walk(self.function or ast.Pass())
            if isinstance(it, ast.AugAssign)
            and isinstance(it.op, ast.Add)
            and isinstance(it.target, ast.Name)
            and it.target.id in names
            and _is_pointer(self.access.variables.get(it.target.id))
        ]
        if len(steps) != 1:
            raise _Unknown
        step = _one(self.value(steps[0].value))
        if step <= 0 or (by != by.flat[0]).any() or by.flat[0] % step or by.flat[0] < 0:
            raise _Unknown
        return Term(
            ast.unparse(steps[0]), by // step, step, ast.unparse(steps[0].value), "", {}, None
        )

    def _term(self, node: ast.expr, sign: int) -> Term:
        factors = list(_factors(node))
        fixed = [it for it in factors if len(factors) > 1 and self._is_factor(it)]
        rest = [it for it in factors if it not in fixed]
        if not rest:
            rest, fixed = fixed[:1], fixed[1:]
        factor, label, index = sign, "", node
        if fixed and len(rest) == 1:
            (index,) = rest
            label = " * ".join(ast.unparse(self._bare(it)) for it in fixed)
            for it in fixed:
                factor *= _one(self.value(it))
        values = np.broadcast_to(self.value(index), self.access.pointers.shape)
        bare = self._bare(index)
        set_to = self._definition(bare.id) if isinstance(bare, ast.Name) else None
        if set_to is not None and len(ast.unparse(set_to)) > MAX_WIDTH:
            set_to = None
        return Term(
            ast.unparse(bare),
            values,
            factor,
            label,
            ast.unparse(set_to) if set_to is not None else "",
            self._scalars(set_to if set_to is not None else bare),
            index,
        )

    def _definition(self, name: str) -> ast.expr | None:
        """Return what a name was set to, if that gives its value, or is all it is ever set to."""
        set_to = self._last(name)
        if set_to is None:
            return None
        made, own = self._plain(set_to), self._plain(ast.Name(name, ast.Load()))
        if made is None or own is None:
            others = [it for _, it in self._sources(name) if it is not set_to]
            return None if others else set_to
        return set_to if np.array_equal(made.ravel(), own.ravel()) else None

    def _is_factor(self, node: ast.expr) -> bool:
        """Return whether an expression is one number that no program id or loop makes."""
        names = [it.id for it in ast.walk(node) if isinstance(it, ast.Name)]
        given = self.access.launch.arguments
        if not all(n in given or n in ("tl", "int") or self._is_given(n) for n in names):
            return False
        values = self._plain(node)
        return values is not None and values.size == 1 and not _has_call(node, "program_id")

    def _is_given(self, name: str) -> bool:
        """Return whether a name is a parameter of the function, or made of nothing else."""
        value = self._last(name)
        if value is None:
            parameters = self.function.args.args if self.function else []
            return any(it.arg == name for it in parameters)
        names = [it.id for it in ast.walk(value) if isinstance(it, ast.Name)]
        return not _has_call(value, "program_id", "load") and all(
            n in self.access.launch.arguments or n == "tl" for n in names
        )

    def _scalars(self, node: ast.expr) -> dict[str, int]:
        """Return the numbers that an expression is made of, by name, in its order."""
        found: dict[str, int] = {}
        parts = [it for it in ast.walk(node) if isinstance(it, (ast.Call, ast.Name))]
        for it in sorted(parts, key=lambda it: (it.lineno, it.col_offset)):
            if isinstance(it, ast.Call) and _name_of(it.func) == "program_id":
                found[ast.unparse(it)] = _one(self.value(it))
            elif isinstance(it, ast.Name) and not _is_pointer(self.access.variables.get(it.id)):
                values = self._plain(it)
                if values is not None and values.size == 1:
                    found[it.id] = _one(values)
        return found

    def _bare(self, node: ast.expr) -> ast.expr:
        """Return an expression without its subscripts and conversions."""
        if isinstance(node, ast.Subscript) and self._is_of_lanes(node):
            return self._bare(node.value)
        if isinstance(node, ast.Call) and _name_of(node.func) == "to":
            assert isinstance(node.func, ast.Attribute)
            return self._bare(node.func.value)
        return node

    def _is_of_lanes(self, node: ast.Subscript) -> bool:
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return all(
            isinstance(it, ast.Slice) or (isinstance(it, ast.Constant) and it.value is None)
            for it in parts
        )

    def _plain(self, node: ast.expr) -> np.ndarray | None:
        try:
            return self.value(node)
        except (_Unknown, ValueError, IndexError):
            return None

    def _last(self, name: str) -> ast.expr | None:
        """Return what a name was last set to above the access."""
        set_to = [it for _, it in self._sources(name) if not _is_target(it)]
        # `rows = rows.to(tl.int64)` changes nothing.
        set_to = [it for it in set_to if getattr(self._bare(it), "id", "") != name]
        above = [it for it in set_to if it.lineno <= self.access.site.line]
        return max(above, key=lambda it: it.lineno, default=None)

    def value(
        self, node: ast.expr, program: tuple[int, int, int] | None = None, depth: int = 0
    ) -> np.ndarray:
        """Return the integers that an expression stands for. Raises _Unknown.

        program: where it is given, what depends on a program id is computed anew for this one
        """
        if depth > MAX_DEPTH:
            raise _Unknown
        deeper = depth + 1
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return np.array(node.value)
        if isinstance(node, ast.Name):
            if program is not None and self._axes_of(node.id, frozenset()):
                value = self._last(node.id)
                if value is None or len(list(self._sources(node.id))) != 1:
                    raise _Unknown
                return self.value(value, program, deeper)
            return _integers(
                self.access.variables.get(node.id, self.access.launch.arguments.get(node.id))
            )
        if isinstance(node, ast.Subscript):
            if self._is_of_lanes(node):
                inner = self.value(node.value, program, deeper)
                parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                lanes = tuple(slice(None) if isinstance(it, ast.Slice) else None for it in parts)
                return inner[lanes] if inner.ndim else inner
            return self._item(node)
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            left, right = (self.value(it, program, deeper) for it in (node.left, node.right))
            if isinstance(node.op, (ast.FloorDiv, ast.Mod)) and not right.all():
                raise _Unknown
            return np.asarray(ARITHMETIC[type(node.op)](left, right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.value(node.operand, program, deeper)
        if isinstance(node, ast.Call):
            return self._called(node, program, deeper)
        raise _Unknown

    def _called(
        self, node: ast.Call, program: tuple[int, int, int] | None, depth: int
    ) -> np.ndarray:
        name = _name_of(node.func)
        if name == "program_id":
            return np.array((program or self.access.program)[self._axis(node)])
        if name == "to" and isinstance(node.func, ast.Attribute):
            return self.value(node.func.value, program, depth)
        if name == "num_programs":
            return np.array(self.access.launch.grid[self._axis(node)])
        given = [self.value(it, program, depth) for it in node.args]
        if name == "arange" and len(given) == 2:
            return np.arange(_one(given[0]), _one(given[1]))
        if name == "cdiv" and len(given) == 2 and given[1].all():
            return -(-given[0] // given[1])
        if name in ("minimum", "min") and len(given) == 2:
            return np.minimum(*given)
        if name in ("maximum", "max") and len(given) == 2:
            return np.maximum(*given)
        raise _Unknown

    def _axis(self, node: ast.Call) -> int:
        given = [*node.args, *(it.value for it in node.keywords)]
        axis = given[0].value if len(given) == 1 and isinstance(given[0], ast.Constant) else None
        if type(axis) is not int or axis not in (0, 1, 2):
            raise _Unknown
        return axis

    def _item(self, node: ast.Subscript) -> np.ndarray:
        """Return an entry of a tuple of numbers, as in strides[2]."""
        whole: Any = (
            self.access.variables.get(node.value.id) if isinstance(node.value, ast.Name) else None
        )
        if isinstance(node.slice, ast.Constant) and type(node.slice.value) is int:
            try:
                return _integers(whole[node.slice.value])
            except (TypeError, KeyError, IndexError):
                pass
        raise _Unknown

    def axes(self, node: ast.AST, seen: frozenset[str] = frozenset()) -> set[int]:
        """Return the axes of the grid that an expression depends on. Raises _Unknown."""
        found: set[int] = set()
        for it in ast.walk(node):
            if isinstance(it, ast.Call):
                name = _name_of(it.func)
                if name == "program_id":
                    found.add(self._axis(it))
                elif name not in PURE:
                    # What is loaded, or what another function returns, may depend on anything.
                    raise _Unknown
            elif isinstance(it, ast.Name) and it.id not in seen:
                found |= self._axes_of(it.id, seen)
        return found

    def _axes_of(self, name: str, seen: frozenset[str]) -> set[int]:
        seen, found = seen | {name}, set[int]()
        sources = list(self._sources(name))
        for condition, value in sources:
            for it in (*condition, value):
                found |= self.axes(it, seen)
        is_own = name in self.access.variables and name not in self.access.launch.arguments
        if is_own and (not sources or self.access.site.caller):
            # It is set in another way, or it is what the function was called with.
            raise _Unknown
        return found

    def _sources(self, name: str) -> Iterator[tuple[list[ast.expr], ast.expr]]:
        """Yield each value that a name is set to, or the name where something changes or counts it.

        Each with what else decides what it is.
        """
        yield from self._set_in(self.function.body if self.function else [], name, [])

    def _set_in(
        self, body: list[ast.stmt], name: str, conditions: list[ast.expr]
    ) -> Iterator[tuple[list[ast.expr], ast.expr]]:
        for node in body:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    pairs = [(target, node.value)]
                    if isinstance(target, ast.Tuple):
                        values = getattr(node.value, "elts", [node.value] * len(target.elts))
                        pairs = list(zip(target.elts, values, strict=False))
                    for one, value in pairs:
                        if isinstance(one, ast.Name) and one.id == name:
                            yield conditions, value
            elif isinstance(node, ast.AnnAssign):
                if isinstance(node.target, ast.Name) and node.target.id == name and node.value:
                    yield conditions, node.value
            elif isinstance(node, ast.AugAssign):
                if isinstance(node.target, ast.Name) and node.target.id == name:
                    yield [*conditions, node.value], node.target
            elif isinstance(node, ast.For):
                if name in {it.id for it in ast.walk(node.target) if isinstance(it, ast.Name)}:
                    yield [*conditions, node.iter], node.target
                yield from self._set_in(node.body, name, [*conditions, node.iter])
            elif isinstance(node, ast.While):
                yield from self._set_in(node.body, name, [*conditions, node.test])
            elif isinstance(node, ast.If):
                for branch, taken in ((node.body, True), (node.orelse, False)):
                    if (decided := self._decides(node.test)) in (taken, None):
                        undecided = [node.test] * (decided is None)
                        yield from self._set_in(branch, name, [*conditions, *undecided])

    def _decides(self, test: ast.expr) -> bool | None:
        """Return what a condition of constexprs is, None where it is made of anything else."""
        nodes = list(ast.walk(test))
        names = {it.id for it in nodes if isinstance(it, ast.Name)}
        launch = self.access.launch
        if not all(isinstance(it, PLAIN) for it in nodes) or not names <= launch.constexprs:
            return None
        known = {"__builtins__": {}, **{name: launch.arguments[name] for name in names}}
        return bool(eval(compile(ast.Expression(test), "", "eval"), known))


def _of_same_lanes(value: ast.expr, node: ast.expr) -> ast.expr:
    """Return an expression with the subscript that another has, if it has one."""
    return ast.Subscript(value, node.slice) if isinstance(node, ast.Subscript) else value


def _is_target(node: ast.expr) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store)


def _factors(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from _factors(node.left)
        yield from _factors(node.right)
    else:
        yield node


def _one(value: np.ndarray) -> int:
    """Return the number that an array of one holds. Raises _Unknown."""
    if value.size != 1:
        raise _Unknown
    return int(value.reshape(-1)[0])


def _is_pointer(value: object) -> bool:
    dtype = getattr(value, "dtype", None)
    return bool(dtype is not None and hasattr(dtype, "is_ptr") and dtype.is_ptr())


def _integers(value: object) -> np.ndarray:
    """Return the integers that a variable holds, one as an array without axes. Raises _Unknown."""
    array = integers(value)
    if array is None:
        number = getattr(value, "value", value)
        if type(number) is not int:
            raise _Unknown
        array = np.asarray(number)
    array = array.astype(np.int64)
    return array.reshape(()) if array.size == 1 else array
