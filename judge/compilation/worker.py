"""Compiles kernels for GPUs that are not there: a process of its own, without the interpreter.

    python -I worker.py DESCRIPTOR

reads requests from the pipe with that file descriptor and answers each; process.py is the
other end. It ends when its parent does. Under TRITON_INTERPRET a function that a kernel calls is an
interpreted one, which the compiler cannot read; hence the process. Nothing here asks for a GPU.
"""

from __future__ import annotations

import ast
import collections
import ctypes
import gc
import importlib
import importlib.util
import inspect
import os
import re
import signal
import sys
import textwrap
import traceback
from multiprocessing.connection import Connection
from types import FunctionType, ModuleType

# prctl(2): the signal that this process gets when its parent dies, however that dies.
PR_SET_PDEATHSIG = 1

_modules: dict[str, ModuleType] = {}
_functions: dict[tuple, object] = {}


class NoSuchKernel(Exception):
    """The learner's module holds no @triton.jit function of that name."""


class TargetDriver:
    """What Triton asks of a driver to compile: which GPU there is."""

    def __init__(self, target):
        self.target = target

    def get_current_target(self):
        return self.target

    def get_current_device(self):
        # Triton keeps what it compiled by device.
        return self.target

    def get_current_stream(self, device) -> int:
        return 0


class FakeTensor:
    """A tensor as far as a kernel is specialised by it."""

    def __init__(self, dtype: str, aligned: bool, small: bool):
        import torch

        self.dtype = getattr(torch, dtype)
        self.address = 16 if aligned else 8
        self.size = 2**31 - 1 if small else 2**31

    def data_ptr(self) -> int:
        return self.address

    def ptr_range(self) -> int:
        return self.size


def main(descriptor: int) -> None:
    # The end of the pipe is not seen in the middle of a compilation.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    pipe = Connection(descriptor)
    sys.path[:], sys.dont_write_bytecode = pipe.recv()
    import torch  # noqa: F401
    import triton.compiler.compiler

    triton.compiler.compiler.filter_traceback = _spoken(triton.compiler.compiler.filter_traceback)
    pipe.send("ready")
    while True:
        try:
            request = pipe.recv()
        except EOFError:
            os._exit(0)
        pipe.send(answered(request))


def answered(request: dict) -> dict:
    """The compiled kernel's resources, or under "error" what was raised and where.

    request: file, subject, kernel, line, arguments, options, target, details
    """
    try:
        load(request["subject"])
    except BaseException as error:
        return {"error": describe(error, request["subject"]) | {"importing": True}}
    try:
        compiled = compile_kernel(request)
        answer = {"shared": compiled.metadata.shared, "num_warps": compiled.metadata.num_warps}
        if request["details"]:
            from judge.compilation import machine_code

            answer |= machine_code.resources(compiled.asm)
        return answer
    except BaseException as error:
        return {"error": describe(error, request["file"])}


def load(path: str) -> None:
    """Execute the learner's file, once, under a private name."""
    if path in _modules:
        return
    name = "kata:" + re.sub(r"\W+", "_", path.removesuffix(".py"))
    spec = importlib.util.spec_from_file_location(name, path)
    _modules[path] = sys.modules[name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del _modules[path], sys.modules[name]
        raise


def compile_kernel(request: dict):
    """Triton's CompiledKernel, by the same path as a launch takes."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    kernel = find(request["file"], request["kernel"], request["line"])
    arguments = {name: made(*value) for name, value in request["arguments"].items()}
    driver.set_active(TargetDriver(GPUTarget(*request["target"])))
    try:
        return kernel.run(grid=(1,), warmup=True, **arguments, **request["options"])
    except BaseException:
        for function in _living("JITCallable"):
            # Its hash may be a placeholder, under which later results would be kept on disk.
            function.hash = None
        raise
    finally:
        driver.set_active(None)


def find(file: str, name: str, line: int):
    """The JITFunction of the function that is written there, whatever wraps or holds it."""
    key = file, name, line
    if key not in _functions:
        for function in _living("JITFunction"):
            code = function.fn.__code__
            _functions[code.co_filename, function.fn.__name__, code.co_firstlineno] = function
    if key not in _functions:
        raise NoSuchKernel(name)
    return _functions[key]


def made(kind: str, *data):
    """An argument from the plain data of specialization.py."""
    if kind == "value":
        return data[0]
    if kind == "tensor":
        return FakeTensor(*data)
    if kind == "descriptor":
        return descriptor(*data)
    if kind == "tuple":
        items = [made(*item) for item in data[0]]
        return collections.namedtuple("Fields", data[1])(*items) if data[1] else tuple(items)
    if kind == "function":
        return find(*data)
    if kind == "builtin":
        return getattr(importlib.import_module(data[0]), data[1])
    if kind == "torch":
        return getattr(importlib.import_module("torch"), data[0])
    import triton.language as tl

    return tl.dtype(data[0]) if kind == "dtype" else tl.constexpr(made(*data[0]))


def descriptor(base: tuple, block_shape: tuple):
    from triton.tools.tensor_descriptor import TensorDescriptor

    # Any shape and strides will do that a descriptor accepts: a kernel is not specialised by them.
    strides = [16 * 2**axis for axis in range(len(block_shape))][::-1]
    strides[-1] = 1
    return TensorDescriptor(made(*base), list(block_shape), strides, list(block_shape))


def describe(error: BaseException, file: str) -> dict:
    """What was raised, in plain data.

    file: the learner's own

    Returns kind and message, of the innermost error that has a message, and frames: (file, line,
    column or None, function) from the kernel to the innermost function.
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
            if frame.filename == file
        ]
    return {"kind": type(chain[-1]).__name__, "message": message, "frames": frames}


def _message(error: BaseException) -> str:
    """Its text, of which Triton may have made a repr such as `NameError('x is not defined')`."""
    text = getattr(error, "error_message", error)
    text = str(text) if text is not None else ""
    if quoted := re.fullmatch(r"(\w+)\((.*)\)", text, re.DOTALL):
        try:
            inner = ast.literal_eval(quoted[2]) if quoted[2] else ""
        except (SyntaxError, ValueError):
            return text
        return str(inner) or ("" if quoted[1] == "AssertionError" else quoted[1])
    return text


def _spoken(filter_traceback):
    """Let assertions without a message say their own line before Triton cuts it off.

    The frames must not live on: they hold objects of MLIR, which crash when freed late.
    """

    def filtered(error: BaseException) -> None:
        link = error
        while link is not None:
            frames = traceback.extract_tb(link.__traceback__)
            if isinstance(link, AssertionError) and not str(link) and frames:
                link.args = (frames[-1].line,)
            link = link.__cause__ or link.__context__
        filter_traceback(error)

    return filtered


def _node_frame(error: BaseException, file: str) -> tuple | None:
    """Where in its file the node of a CompilationError is."""
    source, node = getattr(error, "src", None), getattr(error, "node", None)
    if source is None or not hasattr(node, "lineno"):
        return None
    found = [function for function in _living("JITCallable") if function.src == source]
    if not found:
        return None
    # Another file that was loaded may hold the same text.
    function = max(found, key=lambda function: function.fn.__code__.co_filename == file)
    return (*_position(function, node), function.__name__)


def _living(kind: str) -> list:
    """All objects of this class of triton.runtime.jit."""
    from triton.runtime import jit

    wanted = getattr(jit, kind)
    return [thing for thing in gc.get_objects() if issubclass(type(thing), wanted)]


def _position(function, node: ast.AST) -> tuple[str, int, int]:
    """File, line from 1 and column from 0: Triton counts from `def`, and without indentation."""
    python: FunctionType = function.fn
    lines, first = inspect.getsourcelines(python)
    text = textwrap.dedent("".join(lines))
    before = text[: re.search(r"^def\s+\w+\s*\(", text, re.MULTILINE).start()].count("\n")
    indentation = len(lines[before]) - len(lines[before].lstrip())
    file = inspect.getsourcefile(python)
    return file, first + before + node.lineno - 1, node.col_offset + indentation


if __name__ == "__main__":
    main(int(sys.argv[1]))
