"""Kernels made anew from their source, of files that this process never executes.

A cell tells of a kernel where it is defined and what its global names stand for. The definition is
read from the file, checked to be nothing but Triton, and compiled in a namespace of its own, in
which these names are all there is. In the interpreter a kernel runs as Python: what stands here
is what keeps it from being more than a kernel.
"""

from __future__ import annotations
import __future__

import ast
import copy
import functools
import importlib
import inspect
import itertools
import os
import re
import textwrap
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

# Names that kernels may use of Python's own.
BUILTINS = ("abs", "bool", "float", "int", "isinstance", "len", "max", "min", "range", "tuple")
MODULES = (
    "triton",
    "triton.language",
    "triton.language.math",
    "triton.language.extra",
    "triton.language.extra.cuda",
    "triton.language.extra.cuda.libdevice",
    "triton.language.extra.libdevice",
    "triton.experimental.gluon",
    "triton.experimental.gluon.language",
    "triton.experimental.gluon.language.nvidia",
    "triton.experimental.gluon.language.nvidia.ampere",
    "triton.experimental.gluon.language.nvidia.ampere.async_copy",
    "triton.experimental.gluon.language.nvidia.ampere.mbarrier",
    "triton.experimental.gluon.language.nvidia.hopper",
    "triton.experimental.gluon.language.nvidia.hopper.cluster",
    "triton.experimental.gluon.language.nvidia.hopper.mbarrier",
    "triton.experimental.gluon.language.nvidia.hopper.tma",
)
GLUON = "triton.experimental.gluon"
# What there is of these, beside modules.
TOP = {"triton": ("cdiv", "next_power_of_2", "language"), GLUON: ()}
# Parts of Gluon's modules that their __all__ leaves out.
UNLISTED = ("warpgroup_mma_init", "make_tensor_descriptor", "async_atomic_add")
# What would load code of another kind, or takes what the interpreter keeps apart.
DENIED = {
    "inline_asm_elementwise", "extern_elementwise", "handle", "tensor", "core", "semantic",
    "builtin", "str_to_ty",
}  # fmt: skip
# What a field of an aggregate may be annotated with, beside another aggregate.
FIELDS = (
    "tensor", "constexpr", "tuple", "shared_memory_descriptor", "tensor_descriptor",
    "warpgroup_mma_accumulator",
)  # fmt: skip
CLASSES = ("constexpr", "range", "static_range", "dtype", "condition", "tuple", "PropagateNan")
# Parts of a definition that a kernel has no use for, and what a message calls them.
REFUSED = {
    ast.Import: "import", ast.ImportFrom: "import", ast.Global: "global", ast.Delete: "del",
    ast.Nonlocal: "nonlocal", ast.ClassDef: "class", ast.Lambda: "lambda", ast.Try: "try",
    ast.With: "with", ast.Raise: "raise", ast.Yield: "yield", ast.YieldFrom: "yield",
    ast.Await: "await", ast.AsyncFor: "async", ast.AsyncWith: "async", ast.Match: "match",
    ast.AsyncFunctionDef: "async", ast.GeneratorExp: "a generator", ast.Set: "a set",
    ast.ListComp: "a comprehension", ast.SetComp: "a set", ast.Dict: "a dict",
    ast.DictComp: "a dict",
}  # fmt: skip
# An attribute of the function: the records of it and of all kernels that it calls.
NEEDED = "_rebuilt_from"
MAX_SOURCE_BYTES = 2**20
# Kernels that were made, by all that decides what each is.
MAX_KEPT = 200
_kept: dict[str, Any] = {}
_modules = itertools.count()


class NotAKernel(Exception):
    """A definition is not only a kernel.

    Its arguments: what it uses, the line, and how that is said.
    record: of the definition
    """

    record: Record


class Record(NamedTuple):
    """What is told of a kernel or an aggregate.

    file, line, name: of its definition, decorators included
    names: what its global names stand for, as a cell encodes values
    options: of @triton.jit
    gluon: whether it is decorated with @gluon.jit
    fields: of an aggregate, what each is annotated with, encoded; None for a kernel
    methods: of an aggregate, what made each: "triton" or "gluon", for its jit, or "constexpr"
    """

    file: str
    line: int
    name: str
    names: Mapping[str, Any]
    options: Mapping[str, Any]
    gluon: bool = False
    fields: Mapping[str, Any] | None = None
    methods: Mapping[str, str] | None = None


class Kernels:
    """The kernels of one subject, made when they are first asked for.

    records: what was told of each, by its number
    fields: names of parts of tuples that they are given
    """

    def __init__(self, records: dict[int, Record]):
        self.records = records
        self.fields: frozenset[str] = frozenset()
        self._made: dict[int, Any] = {}
        # Those that are being made, and where to put one that others are made with before it is.
        self._making: set[int] = set()
        self._awaited: list[tuple[dict[str, Any], str, int]] = []

    def get(self, number: int) -> Any:
        """Return a kernel or an aggregate, decorated as Triton's. Raises NotAKernel.

        Where nothing of it has changed it is that of an earlier test, with what Triton compiled.
        """
        if number not in self._made:
            key = self._key(number)
            self._making.add(number)
            try:
                made = self._made[number] = _kept.get(key) or self._make(number)
            finally:
                self._making.discard(number)
            for space, name, awaited in self._awaited:
                if awaited == number:
                    space[name] = made
            if len(_kept) >= MAX_KEPT:
                _kept.clear()
            if key:
                _kept[key] = made
        return self._made[number]

    def _make(self, number: int) -> Any:
        record = self.records[number]
        try:
            tree, future = _parsed(record.file, os.stat(record.file).st_mtime_ns)
            definition = _definition(tree, record)
            used = {it.id for it in ast.walk(definition) if isinstance(it, ast.Name)}
            used = {it for it in used if not it.startswith("__") and it != "_jit"}
            names = {name: self.decode(record.names[name]) for name in used & {*record.names}}
            names = {name: value for name, value in names.items() if value is not Unknown}
            attributes = _public() | (self._parts() - _reachable())
            space = _space(names)
            self._awaited += [
                (space, n, record.names[n][1]) for n, it in names.items() if it is Later
            ]
            if isinstance(definition, ast.ClassDef) and record.fields is not None:
                fields = {name: self._field(name, it, record) for name, it in record.fields.items()}
                return _aggregate(definition, record, names, attributes, fields, space, future)
            _Checker(definition, names, attributes).check()
            jit = _jit("gluon" if record.gluon else "triton")
            made = _made(definition, record, space, future, lambda fn: jit(fn, **record.options))
        except NotAKernel as error:
            error.record = getattr(error, "record", record)
            raise
        needed = {at: tuple(it) for at, it in self.needed_by(number).items()}
        setattr(made.fn, NEEDED, needed)
        return made

    def _field(self, name: str, told: Any, record: Record) -> Any:
        """Return the type of a field of an aggregate. Raises NotAKernel."""
        made = self.decode(told) if _is_kernel(told) else Unknown
        if isinstance(made, type) and made is not Unknown:
            return made
        if isinstance(told, list) and told[0] == "tl" and told[2] in FIELDS:
            return _types()[told[2]]
        raise NotAKernel(f"the field {name} with its annotation", record.line)

    def _parts(self) -> frozenset[str]:
        """Return the names of parts of tuples and aggregates."""
        of = [
            it for record in self.records.values() for it in (record.fields, record.methods) if it
        ]
        return self.fields.union(*of)

    def _key(self, number: int) -> str:
        """Return all that decides what a kernel is; "" where that is told by our numbers."""
        needed = self.needed_by(number)
        order = {at: place for place, at in enumerate(needed)}
        if any(it.fields is not None for it in needed.values()):
            return ""
        told: list[Any] = [sorted(self._parts())]
        for record in needed.values():
            values = {n: it for n, it in record.names.items() if not _is_kernel(it)}
            if "kernel" in repr(list(values.values())):
                return ""
            called = {n: order[it[1]] for n, it in record.names.items() if _is_kernel(it)}
            told += [
                [values if it is record.names else it for it in record],
                called,
                os.stat(record.file).st_mtime_ns,
            ]
        return repr(told)

    def needed_by(self, number: int) -> dict[int, Record]:
        """Return the records of a kernel and of all that it calls."""
        found: dict[int, Record] = {}
        waiting = [number]
        while waiting:
            number = waiting.pop()
            if number not in found:
                found[number] = self.records[number]
                told = found[number].names, found[number].fields or {}
                waiting += [int(it[1]) for its in told for it in its.values() if _is_kernel(it)]
        return found

    def decode(self, value: Any) -> Any:
        """Return what an encoded value stands for that is no tensor; Unknown where nothing does."""
        if not isinstance(value, list):
            return value
        kind, *rest = value
        if kind == "kernel":
            return Later if rest[0] in self._making else self.get(rest[0])
        if kind == "constexpr":
            import triton.language as tl

            return tl.constexpr(self.decode(rest[0]))
        if kind == "module":
            return importlib.import_module(rest[0]) if rest[0] in MODULES else Unknown
        if kind == "tl":
            return _of_triton(*rest)
        if kind == "dtype":
            return torch_dtype(rest[0])
        if kind == "layout":
            return layout(*rest)
        if kind == "tuple":
            items = tuple(self.decode(it) for it in rest[0])
            return Unknown if Unknown in items else items
        return Unknown


# Stands for a value that no kernel may use.
Unknown = type("Unknown", (), {})
# Stands for a kernel or an aggregate that is being made.
Later = object()


def layout(name: str, fields: Mapping[str, Any]) -> Any:
    """Return a layout of Gluon's. Raises ValueError, or what its class raises."""
    made = _layouts().get(name)
    if made is None:
        raise ValueError(name)
    return made(**{field: _part_of_layout(it) for field, it in fields.items()})


def _part_of_layout(told: Any) -> Any:
    if not isinstance(told, list):
        return told
    kind, *rest = told
    if kind == "layout":
        return layout(*rest)
    if kind not in ("list", "tuple"):
        raise ValueError(kind)
    items = map(_part_of_layout, rest[0])
    return list(items) if kind == "list" else tuple(items)


@functools.cache
def _layouts() -> dict[str, type]:
    """Return Gluon's layouts by their names."""
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language import _layouts

    kinds = _layouts.DistributedLayout, _layouts.SharedLayout
    found = {n: it for n, it in vars(gl).items() if isinstance(it, type) and issubclass(it, kinds)}
    return found | {"MBarrierLayout": gl.nvidia.hopper.mbarrier.MBarrierLayout}


def _is_kernel(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and value[0] == "kernel"


def torch_dtype(name: str) -> torch.dtype:
    """Return a dtype of torch by its name. Raises ValueError."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(name)
    return found


@functools.lru_cache(64)
def _parsed(file: str, changed: int) -> tuple[ast.Module, bool]:
    source = Path(file).read_bytes()
    if len(source) > MAX_SOURCE_BYTES:
        raise NotAKernel("a file of more than a megabyte", 1)
    tree = ast.parse(source)
    future = any(isinstance(it, ast.ImportFrom) and it.module == "__future__" for it in tree.body)
    return tree, future


def _definition(tree: ast.Module, record: Record) -> Any:
    kind = ast.FunctionDef if record.fields is None else ast.ClassDef
    for node in ast.walk(tree):
        if not isinstance(node, kind) or node.name != record.name:
            continue
        if min([node.lineno, *(it.lineno for it in node.decorator_list)]) == record.line:
            return node
    raise NotAKernel("a definition that does not stand in the file", record.line)


def _space(names: dict[str, Any]) -> dict[str, Any]:
    """Return the global names of what is made."""
    import builtins

    known = {name: getattr(builtins, name) for name in BUILTINS}
    # Triton's compiler tells functions of one name apart by their modules.
    return {**names, "__builtins__": known, "__name__": f"sealed_{next(_modules)}"}


def _jit(kind: str) -> Any:
    """Return what makes a kernel, or a function of an aggregate, of a function."""
    import triton
    from triton.experimental import gluon

    return {"triton": triton.jit, "gluon": gluon.jit, "constexpr": triton.constexpr_function}[kind]


@functools.cache
def _types() -> dict[str, type]:
    """Return what FIELDS names."""
    import triton.language as tl
    from triton.experimental.gluon import language as gl

    hopper = gl.nvidia.hopper
    found = {"tensor": tl.tensor, "constexpr": tl.constexpr, "tuple": tl.tuple}
    found["shared_memory_descriptor"] = gl.shared_memory_descriptor
    found["tensor_descriptor"] = hopper.tma.tensor_descriptor
    return found | {"warpgroup_mma_accumulator": hopper.warpgroup_mma_accumulator}


def _aggregate(
    definition: ast.ClassDef,
    record: Record,
    names: Mapping[str, Any],
    attributes: frozenset[str],
    fields: Mapping[str, type],
    space: dict[str, Any],
    future: bool,
) -> Any:
    """Return an aggregate of fields and checked functions; its class is never executed.

    Raises NotAKernel where it has anything else.
    """
    if definition.bases or definition.keywords or getattr(definition, "type_params", []):
        raise NotAKernel("a base class", definition.lineno)
    if len(definition.decorator_list) != 1:
        raise NotAKernel("another decorator", definition.lineno)
    declared: list[str] = []
    members: dict[str, Any] = {}
    for node in definition.body:
        if isinstance(node, ast.FunctionDef):
            members[node.name] = _method(node, record, names, attributes, members, space, future)
        elif (
            isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not node.value
        ):
            _check_part(node.target.id, node)
            declared.append(node.target.id)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            raise NotAKernel(f"a statement that is no field: {ast.unparse(node)[:80]}", node.lineno)
    if sorted(declared) != sorted(fields) or {*members} & {*fields}:
        raise NotAKernel("fields that change", definition.lineno)
    made = {
        **members,
        "__annotations__": {n: fields[n] for n in declared},
        "__module__": space["__name__"],
    }
    core = importlib.import_module("triton.language.core")
    return core._aggregate(type(record.name, (), made))


def _method(
    node: ast.FunctionDef,
    record: Record,
    names: Mapping[str, Any],
    attributes: frozenset[str],
    members: Mapping[str, Any],
    space: dict[str, Any],
    future: bool,
) -> Any:
    """Return a function of an aggregate. Raises NotAKernel."""
    begins, kind = node.name == "__init__", (record.methods or {}).get(node.name)
    if not begins:
        _check_part(node.name, node)
    if kind != "constexpr" and (begins or kind not in ("triton", "gluon")):
        raise NotAKernel(f"{node.name}, which neither jit nor constexpr_function made", node.lineno)
    if node.name in members:
        raise NotAKernel(f"{node.name} twice", node.lineno)
    fields = frozenset(record.fields or ()) if begins else frozenset()
    _Checker(node, names, attributes, fields).check()

    def decorate(function: types.FunctionType) -> Any:
        # By this name Triton tells apart what it compiles.
        function.__qualname__ = f"{record.name}.{node.name}"
        return _jit(str(kind))(function)

    return _made(node, record, space, future, decorate)


def _check_part(name: str, node: ast.stmt) -> None:
    kept = name.startswith("_") or name in DENIED or name == "type"
    if kept or (name in _reachable() and name not in _public()):
        raise NotAKernel(name, node.lineno, "taken-name")


def _made(
    definition: ast.FunctionDef,
    record: Record,
    space: dict[str, Any],
    future: bool,
    decorate: Callable[[types.FunctionType], Any],
) -> Any:
    # At the line of the definition: what stands above it is no part of the kernel's source.
    decorator = ast.copy_location(ast.Name("_jit", ast.Load()), definition)
    # What Triton does not read is not executed, either: annotations of what a kernel returns.
    kept = {"decorator_list": [decorator], "returns": None, "type_params": []}
    copied = ast.FunctionDef(**{**dict(ast.iter_fields(definition)), **kept})
    ast.copy_location(copied, definition)
    module = ast.fix_missing_locations(ast.Module([copied], []))
    flags = __future__.annotations.compiler_flag if future else 0
    space["_jit"] = lambda fn: decorate(_as_read(fn, definition))
    made: dict[str, Any] = {}
    exec(compile(module, record.file, "exec", flags, dont_inherit=True), space, made)
    del space["_jit"]
    return made[definition.name]


def _as_read(function: types.FunctionType, definition: ast.FunctionDef) -> types.FunctionType:
    """Return a function whose source Triton takes for the definition that was checked.

    Triton reads it as text: its compiler from the first line on that looks like a definition, its
    interpreter from the last one on, also in a string. Raises NotAKernel.
    """
    lines, first = inspect.getsourcelines(function)
    text = textwrap.dedent("".join(lines))
    for number, line in enumerate(lines):
        if line.strip().startswith("def ") != (number == 0):
            raise NotAKernel("a line that reads as another definition", first + number)
    try:
        found = ast.parse(text).body
    except SyntaxError:
        found = []
    is_one = len(found) == 1 and re.match(r"def\s+\w+\s*\(", text)
    if not is_one or _told(found[0]) != _told(definition):
        raise NotAKernel("text that reads as another definition", first)
    return function


def _told(definition: ast.stmt) -> str:
    """Return what a definition says, whatever decorates it, and however far it is indented."""
    plain = copy.copy(definition)
    plain.decorator_list = []  # type: ignore[attr-defined]
    return re.sub(r"(\\n|\s)+", " ", ast.dump(plain))


class _Checker(ast.NodeVisitor):
    """Checks a definition: see `check`.

    names: what its global names stand for
    attributes: which it may use of what is no module
    fields: which it sets of its first parameter
    """

    def __init__(
        self,
        definition: ast.FunctionDef,
        names: Mapping[str, Any],
        attributes: frozenset[str],
        fields: frozenset[str] = frozenset(),
    ):
        self.fields = fields
        self.definition, self.names, self.attributes = definition, names, attributes
        nodes = list(ast.walk(definition))
        self.own = {it.arg for it in nodes if isinstance(it, ast.arg)}
        self.own |= {
            it.id for it in nodes if isinstance(it, ast.Name) and isinstance(it.ctx, ast.Store)
        }
        self.instance = next((it.arg for it in definition.args.args), "")
        self.rebound = any(
            isinstance(it, ast.Name) and it.id == self.instance and isinstance(it.ctx, ast.Store)
            for it in nodes
        )

    def check(self) -> None:
        """Raise NotAKernel at the first thing that is no part of a kernel."""
        for part in (self.definition.args, *self.definition.body):
            self.visit(part)

    def generic_visit(self, node: ast.AST) -> None:
        if what := REFUSED.get(type(node)):
            self._refuse(what, node)
        super().generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._refuse("a function inside it", node)

    def visit_arg(self, node: ast.arg) -> None:
        self._check_name(node.arg, node)
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if (node.arg or "").startswith("_"):
            self._refuse(f"the argument {node.arg}", node)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self._check_name(node.id, node)
        if isinstance(node.ctx, ast.Load) and node.id not in self.own:
            value = self.names.get(node.id, Unknown)
            if isinstance(value, types.ModuleType):
                self._refuse(f"the module {node.id} as a value", node)
            if value is Unknown and node.id not in BUILTINS:
                self._refuse(node.id, node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            of = node.value.id if isinstance(node.value, ast.Name) else None
            if of == self.instance and not self.rebound and node.attr in self.fields:
                return
            self._refuse("an attribute that it sets", node)
        value = self._of_module(node)
        if isinstance(value, types.ModuleType):
            self._refuse(f"the module {ast.unparse(node)} as a value", node)
        if value is not None:
            return
        if node.attr not in self.attributes:
            self._refuse(f".{node.attr}", node)
        self.visit(node.value)

    def _of_module(self, node: ast.expr) -> Any:
        """Return what a dotted name stands for that begins with a module, None for others."""
        if isinstance(node, ast.Name):
            value = None if node.id in self.own else self.names.get(node.id)
            return value if isinstance(value, types.ModuleType) else None
        if not isinstance(node, ast.Attribute):
            return None
        owner = self._of_module(node.value)
        if not isinstance(owner, types.ModuleType):
            # A part of a constant of a module, as in tl.float32.primitive_bitwidth.
            return None
        value = _member(owner, node.attr)
        if value is Unknown:
            self._refuse(ast.unparse(node), node)
        return value

    def _check_name(self, name: str, node: ast.AST) -> None:
        if name.startswith("__") or name == "_jit":
            self._refuse(name, node)

    def _refuse(self, what: str, node: ast.AST) -> None:
        raise NotAKernel(what, getattr(node, "lineno", self.definition.lineno))


def _member(module: types.ModuleType, name: str) -> Any:
    """Return what a kernel may use of a module of Triton by this name, Unknown without any."""
    value = getattr(module, name, Unknown)
    if name.startswith("_") or name in DENIED:
        return Unknown
    if isinstance(value, types.ModuleType):
        return value if value.__name__ in MODULES else Unknown
    if name not in TOP.get(module.__name__, (name,)):
        return Unknown
    if module.__name__.startswith(GLUON):
        if isinstance(value, type) and value in _layouts().values():
            return value
        if name not in (*getattr(module, "__all__", (name,)), *UNLISTED):
            return Unknown
    if isinstance(value, type) and name not in CLASSES:
        return Unknown
    return value


def _of_triton(module: str, name: str) -> Any:
    """Return what a file imported by name from Triton."""
    import triton.language as tl
    from triton.language.extra import libdevice

    if module == "triton.language" and not hasattr(tl, name):
        try:
            return tl.dtype(name)
        except (AssertionError, ValueError):
            return Unknown
    if module.endswith("libdevice"):
        return _member(libdevice, name)
    if module.startswith(GLUON):
        # What it imports of parts that are its own.
        public = module if module in MODULES else f"{GLUON}.language"
        return _member(importlib.import_module(public), name)
    return _member(tl, name) if module.startswith("triton.language") else Unknown


@functools.cache
def _public() -> frozenset[str]:
    """Return the attributes of what a kernel computes with."""
    import triton.language as tl

    core = importlib.import_module("triton.language.core")
    gluon = importlib.import_module(f"{GLUON}.language")
    kinds = [tl.tensor, tl.dtype, tl.pointer_type, core.block_type, core.tensor_descriptor]
    kinds += [gluon.shared_memory_descriptor, gluon.nvidia.hopper.tma.tensor_descriptor]
    kinds += _layouts().values()
    named = {name for kind in kinds for name in dir(kind) if not name.startswith("_")}
    # What is set in __init__, where dir() does not see it.
    named |= {"shape", "dtype", "type", "value", "element_ty", "numel", "scalar", "strides"}
    named |= {"block_shape", "primitive_bitwidth", "int_bitwidth", "name"}
    # Of tl.PropagateNan.
    named |= {"ALL", "NONE"}
    return frozenset(named - DENIED)


@functools.cache
def _reachable() -> frozenset[str]:
    """Return attributes that the name of a part of a tuple or an aggregate must not open."""
    import numpy as np
    import triton
    import triton.language as tl
    from triton.runtime import interpreter, jit

    of = [interpreter.InterpretedFunction, interpreter.TensorHandle, jit.JITFunction, np.ndarray]
    of += [str, int, float, tuple, list, type, types.FunctionType, types.ModuleType, tl.tensor]
    of += [functools.partial, jit.ConstexprFunction]
    names = {name for kind in of for name in dir(kind)} | {
        "fn",
        "rewriter",
        "data",
        "kwargs",
        "base",
    }
    # What is set in __init__, of kernels and of what the interpreter has for Gluon's memory.
    names |= {*vars(tl.cdiv), *vars(triton.constexpr_function(_reachable.__wrapped__))}
    names |= {"memory", "ids", "future", "box", "hash_attrs"}
    return frozenset(names | DENIED)
