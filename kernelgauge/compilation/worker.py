"""Compile kernels for GPUs that are not there, in a process without the interpreter.

    python -I worker.py DESCRIPTOR

reads requests from the pipe with that file descriptor and answers each; process.py is the other
end. So does a fork that calls `main`. The process ends when its parent does. There has to be one
because under TRITON_INTERPRET the functions that a kernel calls are interpreted ones, which the
compiler cannot read. Nothing here needs a GPU.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import ctypes
import functools
import gc
import importlib.util
import inspect
import os
import re
import signal
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator
from multiprocessing import reduction
from multiprocessing.connection import Connection
from pathlib import Path
from types import FunctionType
from typing import Any
from unittest import mock

# prctl(2): send this process a signal when its parent dies, for whatever reason.
PR_SET_PDEATHSIG = 1
# What Triton's IR of a plain kernel consists of: nothing that one GPU takes and another one could
# refuse, from sm_80 on.
PLAIN_DIALECTS = {"arith", "cf", "math", "scf", "ub"}
PLAIN = {
    "addptr", "bitcast", "broadcast", "cat", "clampf", "constancy", "contiguity", "divisibility",
    "expand_dims", "fp_to_fp", "func", "get_num_programs", "get_program_id", "join", "load",
    "loop_unroll_factor", "make_range", "mulhiui", "num_stages", "pointer_range", "precise_divf",
    "precise_sqrt", "ptr", "reduce", "reshape", "return", "scan", "splat", "split", "store",
    "trans", "unsplat",
}  # fmt: skip
# A request to fork. Two descriptors follow: of a pipe, and of a file for what is printed.
FORK = "fork"

_forked: int | None = None
_functions: dict[tuple, object] = {}
# Triton's own function that links libdevice to a kernel.
_link: Any = None


class NoSuchKernel(Exception):
    """The learner's module holds no @triton.jit function of that name."""


class TargetDriver:
    """The part of a Triton driver that compilation uses: it says which GPU there is."""

    def __init__(self, target: Any):
        self.target = target

    def get_current_target(self) -> Any:
        """Return the GPU to compile for."""
        return self.target

    # Triton caches compiled kernels by device.
    get_current_device = get_current_target

    def get_current_stream(self, device: Any) -> int:
        """Return a stream that nothing is launched on."""
        return 0


class FakeTensor:
    """A tensor, as far as Triton specializes a kernel by it."""

    def __init__(self, dtype: str, aligned: bool, small: bool):
        import torch

        self.dtype = getattr(torch, dtype)
        self.address = 16 if aligned else 8
        self.size = 2**31 - 1 if small else 2**31

    def data_ptr(self) -> int:
        """Return an address with the tensor's alignment to 16 bytes."""
        return self.address

    def ptr_range(self) -> int:
        """Return the size in bytes, as far as AMD's backend distinguishes it."""
        return self.size


def main(descriptor: int) -> None:
    """Answer requests until the pipe ends or the parent dies."""
    end_with_parent()
    pipe = Connection(descriptor)
    os.environ.pop("TRITON_INTERPRET", None)
    try:
        sys.path[:], sys.dont_write_bytecode = pipe.recv()
    except EOFError:
        os._exit(0)
    from kernelgauge.core.settings import settings

    settings.compiling = True
    import torch  # noqa: F401
    import triton.compiler.compiler

    from kernelgauge.compilation import evidence

    compiler = triton.compiler.compiler
    compiler.filter_traceback = _keep_facts(compiler.filter_traceback)
    evidence.keep_variables_of_loops()
    pipe.send("ready")
    while True:
        try:
            request = pipe.recv()
        except EOFError:
            os._exit(0)
        if request == FORK:
            pipe = _fork(pipe)
        else:
            pipe.send(answer(request))


def end_with_parent() -> None:
    """End this process when its parent dies: while it is busy it notices no pipe that has ended."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _fork(pipe: Connection) -> Connection:
    """Fork, and let the fork answer on a pipe of its own, the only one at a time.

    Returns the pipe to go on with, in both processes.
    """
    global _forked
    if _forked:
        os.kill(_forked, signal.SIGKILL)
        os.waitpid(_forked, 0)
    descriptor, log = (reduction.recv_handle(pipe) for _ in range(2))
    _forked = os.fork()
    if _forked:
        os.close(descriptor)
        os.close(log)
        pipe.send(_forked)
        return pipe
    end_with_parent()
    os.setsid()
    for printed in (1, 2):
        os.dup2(log, printed)
    os.close(log)
    pipe.close()
    return Connection(descriptor)


def answer(request: dict) -> dict:
    """Compile a kernel. Returns its resources, or {"error": what was raised and where}.

    request: file, kernel (its name), line (of its definition), subject (the learner's file), module
        (what that is imported as, "" if it is loaded by its path), arguments (from
        specialization.py), options, target (backend, arch, warp size), lowered (whether to go on to
        LLVM IR), machine_code, details, listings, div_rn (whether to look for divisions that are
        not rounded to nearest)
    """
    from kernelgauge.compilation import early_release, stale_bounds

    try:
        if request["sealed"] is None:
            _import(Path(request["subject"]), request["module"])
        else:
            _rebuild(request["sealed"])
    except BaseException as error:
        return {"error": describe(error, request["subject"]) | {"importing": True}}
    try:
        compiled = compile_kernel(request)
        used = {
            "shared": compiled.metadata.shared,
            "num_warps": compiled.metadata.num_warps,
            "plain": compiled.metadata.num_ctas == 1 and is_plain(compiled.asm.get("ttir", "")),
        }
        used["stale_bound"] = stale_bounds.find(compiled.asm, compiled.metadata.target)
        if compiled.asm.get("ptx"):
            used["early_release"] = early_release.find(compiled.asm["ptx"])
        if request["div_rn"] and compiled.asm.get("ptx"):
            from kernelgauge.compilation import machine_code

            used["inexact_division"] = machine_code.inexact_division(compiled.asm["ptx"])
        if request["details"]:
            from kernelgauge.compilation import machine_code

            used |= machine_code.resources(compiled.asm, compiled.metadata.name)
        if request["listings"]:
            from kernelgauge.compilation import listings

            used["listings"] = listings.annotated(compiled.asm, compiled.metadata.name)
        return used
    except BaseException as error:
        return {"error": describe(error, request["file"])}


def _import(file: Path, module: str) -> None:
    """Import a file by its own name, as it may import others of its package, or by its path."""
    from kernelgauge.core import paths

    found = importlib.util.find_spec(module) if module else None
    if found and found.origin and os.path.realpath(found.origin) == str(file):
        importlib.import_module(module)
    else:
        paths.load(file)


def _rebuild(records: dict) -> None:
    """Make kernels of files that are not to be executed: see core.rebuilt."""
    from kernelgauge.core.rebuilt import Kernels, Record

    kernels = Kernels({number: Record(*it) for number, it in records.items()})
    for number, record in kernels.records.items():
        kernel = kernels.get(number)
        if record.fields is not None:
            continue
        place = os.path.realpath(record.file), record.name, kernel.fn.__code__.co_firstlineno
        _functions[place] = kernel


def compile_kernel(request: dict) -> Any:
    """Return Triton's CompiledKernel, made in the same way as by a launch."""
    from triton import knobs
    from triton.backends.compiler import GPUTarget
    from triton.runtime import cache, driver

    kernel = find(request["file"], request["kernel"], request["line"])
    arguments = {name: make(*value) for name, value in request["arguments"].items()}
    driver.set_active(TargetDriver(GPUTarget(*request["target"])))
    whole = _point_to_calls if request["details"] else None
    short = _end_at_llvm_ir if request["lowered"] else _end_at_shared_memory
    knobs.runtime.add_stages_inspection_hook = whole if request["machine_code"] else short
    # Triton's cache on disk does not tell a kernel from one of the same text in another file, and
    # that of 3.6 not by a hook either.
    lines_of = request["file"] if request["details"] else ""
    cache.triton_key = lambda: f"{_version_of_triton()}-{lines_of}"
    _optimize(request["machine_code"])
    # Triton 3.6 does not tell by what it keeps in this process where a compilation ended.
    kernel.device_caches.clear()
    try:
        return kernel.run(grid=(1,), warmup=True, **arguments, **request["options"])
    except BaseException:
        for function in _living("JITCallable"):
            # Otherwise later results may be cached on disk under a hash that is a placeholder.
            function.hash = None
        raise
    finally:
        driver.set_active(None)


def is_plain(text: str) -> bool:
    """Return whether a kernel's IR is all of `PLAIN`. No text, as of Gluon, is not."""
    # An operation in quotation marks is followed by its operands, other texts are names of files.
    code = re.sub(r'"[^"\n]*"(?!\()', "", text)
    used = re.findall(r"(?<![\w.])([a-z]+)\.([a-z_]+)", code)
    return (
        bool(used)
        and not re.search(r"\bf8|xf8", text)
        and all(
            dialect in PLAIN_DIALECTS or (dialect == "tt" and name in PLAIN)
            for dialect, name in used
        )
    )


def _end_at_llvm_ir(backend: Any = None, stages: dict | None = None, *_: Any) -> tuple | None:
    """Let the stages after LLVM IR do nothing. Without arguments: what tells such kernels apart.

    This is Triton's hook for pipelines of one's own, knobs.runtime.add_stages_inspection_hook.
    """
    if stages is None:
        return _end_at_llvm_ir.__name__, _end_at_llvm_ir.__name__

    def assembly(module: str, metadata: dict) -> str:
        metadata["name"] = ""
        return ""

    after = list(stages)[list(stages).index("llir") + 1 :]
    stages |= dict.fromkeys(after, assembly)
    stages[after[-1]] = lambda module, metadata: b""
    return None


def _end_at_shared_memory(backend: Any = None, stages: dict | None = None, *_: Any) -> tuple | None:
    """Let nothing follow once shared memory is laid out. A hook like `_end_at_llvm_ir`."""
    if stages is None:
        return _end_at_shared_memory.__name__, _end_at_shared_memory.__name__
    _end_at_llvm_ir(backend, stages)
    lower = stages["llir"]

    def lay_out(module: Any, metadata: dict) -> str:
        with contextlib.ExitStack() as stack:
            for owner, names in _lowering():
                for name in names:
                    if hasattr(owner, name):
                        stack.enter_context(mock.patch.object(owner, name, _nothing))
            return lower(module, metadata)

    # What another backend lowers by is not known here.
    if backend.target.backend == "cuda":
        stages["llir"] = lay_out
    return None


def _nothing(*_: Any) -> str:
    return ""


def _lowering() -> list[tuple[Any, tuple[str, ...]]]:
    """Return the passes and functions by which Triton makes LLVM IR of a kernel."""
    from triton._C.libtriton import llvm, nvidia, passes

    return [
        (nvidia.passes.ttgpuir, ("add_to_llvmir",)),
        (nvidia.passes.ttnvgpuir, ("add_nvgpu_to_llvm", "add_warp_specialize_to_llvm")),
        (passes.convert, ("add_nvvm_to_llvm",)),
        (llvm, ("to_module", "attach_datalayout", "optimize_module")),
        (nvidia, ("set_nvvm_reflect_ftz", "has_extern_deps")),
    ]


def _point_to_calls(backend: Any = None, stages: dict | None = None, *_: Any) -> tuple | None:
    """Let lines of machine code be the learner's. A hook like `_end_at_llvm_ir`.

    What comes from Triton's own functions is then at the line of the call.
    """
    from kernelgauge.compilation import listings

    if stages is None:
        return _point_to_calls.__name__, _point_to_calls.__name__
    if assemble := stages.get("cubin"):
        stages["cubin"] = lambda ptx, metadata: assemble(listings.relocated(ptx), metadata)
    return None


def _optimize(wanted: bool) -> None:
    """Have LLVM optimize, link libdevice and note lines, or not.

    Triton reads these variables and this name at each compilation.
    """
    global _link
    from triton._C.libtriton import llvm

    for variable in ("DISABLE_LLVM_OPT", "TRITON_DISABLE_LINE_INFO"):
        if wanted:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = "1"
    _link = _link or llvm.link_extern_libs
    llvm.link_extern_libs = _link if wanted else lambda module, paths: None


@functools.cache
def _version_of_triton() -> str:
    """Return what tells this Triton from others, for its cache; its own way reads all of it."""
    import triton
    from triton._C import libtriton

    built = os.stat(libtriton.__file__)
    return f"{triton.__version__}-{built.st_size}-{built.st_mtime_ns}"


def find(file: str, name: str, line: int) -> Any:
    """Return the JITFunction of a function, whatever wraps or holds it. Raises NoSuchKernel."""
    key = os.path.realpath(file), name, line
    for functions in (_defined_in, lambda _: _living("JITFunction")):
        if key in _functions:
            break
        for function in functions(file):
            code = function.fn.__code__
            place = os.path.realpath(code.co_filename), function.fn.__name__, code.co_firstlineno
            _functions[place] = function
    if key not in _functions:
        raise NoSuchKernel(name)
    return _functions[key]


def _defined_in(file: str) -> Iterator:
    """Yield the JITFunctions that a module holds by name, below their decorators."""
    from triton.runtime.jit import JITFunction

    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) in (file, os.path.realpath(file)):
            for value in list(vars(module).values()):
                while value is not None and not isinstance(value, JITFunction):
                    value = getattr(value, "fn", None)
                if value is not None:
                    yield value


def make(kind: str, *data: Any) -> Any:
    """Return the argument that this plain data of specialization.py stands for."""
    if kind == "value":
        return data[0]
    if kind == "tensor":
        return FakeTensor(*data)
    if kind == "descriptor":
        return make_descriptor(*data)
    if kind == "layout":
        fields = {name: make(*value) for name, value in data[2]}
        return getattr(importlib.import_module(data[0]), data[1])(**fields)
    if kind == "list":
        return [make(*item) for item in data[0]]
    if kind == "tuple":
        items = [make(*item) for item in data[0]]
        return collections.namedtuple("Fields", data[1])(*items) if data[1] else tuple(items)
    if kind == "function":
        return find(*data)
    if kind == "builtin":
        return getattr(importlib.import_module(data[0]), data[1])
    if kind == "torch":
        return getattr(importlib.import_module("torch"), data[0])
    import triton.language as tl

    return tl.dtype(data[0]) if kind == "dtype" else tl.constexpr(make(*data[0]))


def make_descriptor(base: tuple, block_shape: tuple, layout: tuple | None = None) -> Any:
    """Return a tensor descriptor, Gluon's if it has a layout: its class, and its fields.

    Its shape and strides do not matter to the compiler.
    """
    from triton.tools.tensor_descriptor import TensorDescriptor

    strides = [16 * 2**axis for axis in range(len(block_shape))][::-1]
    strides[-1] = 1
    if layout:
        from triton.experimental.gluon.nvidia import hopper

        shape = list(block_shape)
        return hopper.TensorDescriptor(make(*base), shape, strides, shape, make(*layout))
    return TensorDescriptor(make(*base), list(block_shape), strides, list(block_shape))


def describe(error: BaseException, file: str) -> dict:
    """Return an error as plain data.

    file: the file of the kernel

    Returns the kind of the innermost error, the innermost message, and as frames (file, line,
    column or None, function), from the kernel to the innermost function, and what is known of its
    variables.
    """
    chain = [error]
    while (inner := chain[-1].__cause__) is not None:
        chain.append(inner)
    message = next((text for text in map(_message, reversed(chain)) if text), "")
    if not message:
        message = str(chain[-1].__context__ or "")
    frames = [frame for link in chain if (frame := _node_frame(link, file))]
    if not frames:
        frames = [
            (frame.filename, frame.lineno, None, frame.name)
            for frame in traceback.extract_tb(error.__traceback__)
            if os.path.realpath(frame.filename) == os.path.realpath(file)
        ]
    variables = getattr(error, "variables", None)
    kind = type(chain[-1]).__name__
    return {"kind": kind, "message": message, "frames": frames, "variables": variables}


def _message(error: BaseException) -> str:
    """Return an error's text, also where Triton made it a repr: `NameError('x is not defined')`."""
    text = getattr(error, "error_message", error)
    text = str(text) if text is not None else ""
    if quoted := re.fullmatch(r"(\w+)\((.*)\)", text, re.DOTALL):
        try:
            inner = ast.literal_eval(quoted[2]) if quoted[2] else ""
        except (SyntaxError, ValueError):
            return text
        return str(inner) or ("" if quoted[1] == "AssertionError" else quoted[1])
    return text


def _keep_facts(filter_traceback: Callable[..., None]) -> Callable[..., None]:
    """Keep what the frames of an error tell, before Triton cuts them off.

    That is what is known of variables, and the source line as the message of an assertion without
    one.
    The frames themselves cannot be kept: they hold objects of MLIR, which crash when freed late.
    """
    from kernelgauge.compilation import evidence

    def filtered(error: BaseException) -> None:
        link: BaseException | None = error
        variables = evidence.Variables()
        while link is not None:
            found = evidence.variables_at(link.__traceback__)
            variables = found if found != evidence.Variables() else variables
            frames = traceback.extract_tb(link.__traceback__)
            if isinstance(link, AssertionError) and not str(link) and frames:
                link.args = (frames[-1].line,)
            link = link.__cause__ or link.__context__
        vars(error)["variables"] = variables
        filter_traceback(error)

    return filtered


def _node_frame(error: BaseException, file: str) -> tuple | None:
    """Return the frame of a CompilationError, None if it has no node of a known function."""
    source, node = getattr(error, "src", None), getattr(error, "node", None)
    if source is None or not hasattr(node, "lineno"):
        return None
    found = [function for function in _living("JITCallable") if function.src == source]
    if not found:
        return None
    # Another file may hold the same text.
    function = max(found, key=lambda function: function.fn.__code__.co_filename == file)
    return (*_position(function, node), function.__name__)


def _living(kind: str) -> list:
    """Return all objects of this class of triton.runtime.jit."""
    from triton.runtime import jit

    wanted = getattr(jit, kind)
    return [thing for thing in gc.get_objects() if issubclass(type(thing), wanted)]


def _position(function: Any, node: Any) -> tuple[str | None, int, int]:
    """Return file, line from 1, column from 0. Triton counts from `def`, without indentation."""
    python: FunctionType = function.fn
    lines, first = inspect.getsourcelines(python)
    text = textwrap.dedent("".join(lines))
    before = re.split(r"^def\s+\w+\s*\(", text, maxsplit=1, flags=re.MULTILINE)[0].count("\n")
    indentation = len(lines[before]) - len(lines[before].lstrip())
    file = inspect.getsourcefile(python)
    return file, first + before + node.lineno - 1, node.col_offset + indentation


if __name__ == "__main__":
    main(int(sys.argv[1]))
