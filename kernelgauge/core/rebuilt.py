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
import os
import re
import textwrap
import types
from collections.abc import Mapping
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


class NotAKernel(Exception):
    """A definition is not only a kernel. Its arguments: what it uses, and the line."""


class Record(NamedTuple):
    """What is told of a kernel.

    file, line, name: of its definition, decorators included
    names: what its global names stand for, as a cell encodes values
    options: of @triton.jit
    gluon: whether it is decorated with @gluon.jit
    """

    file: str
    line: int
    name: str
    names: Mapping[str, Any]
    options: Mapping[str, Any]
    gluon: bool = False


class Kernels:
    """The kernels of one subject, made when they are first asked for.

    records: what was told of each, by its number
    fields: names of parts of tuples that they are given
    """

    def __init__(self, records: dict[int, Record]):
        self.records = records
        self.fields: frozenset[str] = frozenset()
        self._made: dict[int, Any] = {}

    def get(self, number: int) -> Any:
        """Return a kernel, decorated as Triton's. Raises NotAKernel.

        Where nothing of it has changed it is that of an earlier test, with what Triton compiled.
        """
        if number not in self._made:
            key = self._key(number)
            made = self._made[number] = _kept.get(key) or self._make(number)
            if len(_kept) >= MAX_KEPT:
                _kept.clear()
            if key:
                _kept[key] = made
        return self._made[number]

    def _make(self, number: int) -> Any:
        record = self.records[number]
        tree, future = _parsed(record.file, os.stat(record.file).st_mtime_ns)
        definition = _definition(tree, record)
        names = {name: self.decode(value) for name, value in record.names.items()}
        names = {name: value for name, value in names.items() if value is not Unknown}
        _Checker(definition, names, _public() | (self.fields - _reachable())).check()
        made = _made(definition, record, names, future)
        needed = {at: tuple(it) for at, it in self.needed_by(number).items()}
        setattr(made.fn, NEEDED, needed)
        return made

    def _key(self, number: int) -> str:
        """Return all that decides what a kernel is; "" where that is told by our numbers."""
        needed = self.needed_by(number)
        order = {at: place for place, at in enumerate(needed)}
        told: list[Any] = [sorted(self.fields)]
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
                waiting += [int(it[1]) for it in found[number].names.values() if _is_kernel(it)]
        return found

    def decode(self, value: Any) -> Any:
        """Return what an encoded value stands for that is no tensor; Unknown where nothing does."""
        if not isinstance(value, list):
            return value
        kind, *rest = value
        if kind == "kernel":
            return self.get(rest[0])
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


def _definition(tree: ast.Module, record: Record) -> ast.FunctionDef:
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name != record.name:
            continue
        if min([node.lineno, *(it.lineno for it in node.decorator_list)]) == record.line:
            return node
    raise NotAKernel("a definition that does not stand in the file", record.line)


def _made(definition: ast.FunctionDef, record: Record, names: dict[str, Any], future: bool) -> Any:
    import builtins

    import triton
    from triton.experimental import gluon

    jit = gluon.jit if record.gluon else triton.jit
    # At the line of the definition: what stands above it is no part of the kernel's source.
    decorator = ast.copy_location(ast.Name("_jit", ast.Load()), definition)
    # What Triton does not read is not executed, either: annotations of what a kernel returns.
    kept = {"decorator_list": [decorator], "returns": None, "type_params": []}
    copied = ast.FunctionDef(**{**dict(ast.iter_fields(definition)), **kept})
    ast.copy_location(copied, definition)
    module = ast.fix_missing_locations(ast.Module([copied], []))
    flags = __future__.annotations.compiler_flag if future else 0
    space = {
        **names,
        "_jit": lambda fn: jit(_as_read(fn, definition), **record.options),
        "__builtins__": {name: getattr(builtins, name) for name in BUILTINS},
        "__name__": "sealed",
    }
    exec(compile(module, record.file, "exec", flags, dont_inherit=True), space)
    made = space[record.name]
    del space["_jit"]
    return made


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
    """

    def __init__(
        self, definition: ast.FunctionDef, names: Mapping[str, Any], attributes: frozenset[str]
    ):
        self.definition, self.names, self.attributes = definition, names, attributes
        nodes = list(ast.walk(definition))
        self.own = {it.arg for it in nodes if isinstance(it, ast.arg)}
        self.own |= {
            it.id for it in nodes if isinstance(it, ast.Name) and isinstance(it.ctx, ast.Store)
        }

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
    """Return attributes that the name of a tuple's part must not open."""
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter, jit

    of = [interpreter.InterpretedFunction, interpreter.TensorHandle, jit.JITFunction, np.ndarray]
    of += [str, int, float, tuple, list, type, types.FunctionType, types.ModuleType, tl.tensor]
    names = {name for kind in of for name in dir(kind)} | {
        "fn",
        "rewriter",
        "data",
        "kwargs",
        "base",
    }
    return frozenset(names | DENIED)
