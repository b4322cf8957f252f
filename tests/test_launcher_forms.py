"""Launchers of every form end in a verdict: right ones are solved, and wrong ones told in words."""

from __future__ import annotations

import itertools
import random
import textwrap

import pytest
import torch

from course import loader, paths, running
from course.challenge import Challenge
from kernelgauge import words
from kernelgauge.core import paths as core_paths
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import NotMeasured, Wrong

HEADER = """
import collections, contextlib, functools, sys, types
import torch, triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    x = tl.load(x_ptr + offs, mask=mask)
    tl.store(y_ptr + offs, x, mask=mask)

def grid(x): return (triton.cdiv(x.numel(), 64),)
"""

# How a result is allocated.
ALLOCATED = [
    "torch.empty_like(x)",
    "torch.empty(x.shape, dtype=x.dtype, device=x.device)",
    "torch.empty_permuted(x.shape, (0,), dtype=x.dtype, device=x.device)",
    "torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)",
    "torch.zeros_like(x)",
    "torch.full_like(x, 7)",
    "torch.full(x.shape, 0.5, dtype=x.dtype, device=x.device)",
    "x.new_empty(x.shape)",
    "x.new_zeros(x.size())",
    "torch.empty(x.numel() + 8, dtype=x.dtype, device=x.device)[8:]",
    "torch.empty(2, x.numel(), dtype=x.dtype, device=x.device)[1]",
    "torch.empty(1, x.numel(), dtype=x.dtype, device=x.device).view(x.shape)",
]
# How the kernel that stores to y is launched.
LAUNCHED = {
    "plainly": "kernel[grid(x)](x, y, x.numel(), BLOCK=64)",
    "by keywords": "kernel[grid(x)](x_ptr=x, y_ptr=y, N=x.numel(), BLOCK=64)",
    "by places": "kernel[grid(x)](x, y, x.numel(), 64)",
    "with options": "kernel[grid(x)](x, y, len(x), BLOCK=64, num_warps=2, num_stages=1)",
    "on a list": "kernel[[triton.cdiv(x.numel(), 64), 1, 1]](x, y, x.numel(), BLOCK=64)",
    "on a function": """
        kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel(), BLOCK=64)
        """,
    "by run": """
        kernel.run(x, y, x.numel(), BLOCK=64, grid=grid(x), warmup=False)
        """,
    "by a partial": "functools.partial(kernel[grid(x)], BLOCK=64)(x, y, x.numel())",
    "from a table": "{torch.float32: kernel}[x.dtype][grid(x)](x, y, x.numel(), BLOCK=64)",
    "from a class": "Kernels.copy[grid(x)](x, y, x.numel(), BLOCK=64)",
    "from a named tuple": "Pair(kernel, None).first[grid(x)](x, y, x.numel(), BLOCK=64)",
    "autotuned": "tuned[lambda meta: (triton.cdiv(x.numel(), meta['BLOCK']),)](x, y, x.numel())",
    "with heuristics": "guessed[grid(x)](x, y, x.numel())",
    "by an operator": "operator(x, y)",
    "by a function of autograd": "y = Copied.apply(x, y)",
    "in a profiler's range": """
        with torch.profiler.record_function("copy"):
            kernel[grid(x)](x, y, x.numel(), BLOCK=64)
        """,
    "without gradients": """
        with torch.no_grad(), contextlib.ExitStack():
            kernel[grid(x)](x, y, x.numel(), BLOCK=64)
        """,
    "in halves": """
        for first in range(0, x.numel(), 64):
            some = min(64, x.numel() - first)
            kernel[(1,)](x[first:], y[first:], some, BLOCK=64)
        """,
    "from a generator": """
        for y in (launched(x, it) for it in [y]):
            pass
        """,
    "by recursion": """
        def go(first):
            if first < x.numel():
                kernel[(1,)](x[first:], y[first:], min(64, x.numel() - first), BLOCK=64)
                go(first + 64)
        go(0)
        """,
    "on a detached input": "kernel[grid(x)](x.detach(), y.detach(), x.numel(), BLOCK=64)",
    "on flat views": "kernel[grid(x)](x.view(-1), y.reshape(-1), x.numel(), BLOCK=64)",
}
HELPERS = """
class Kernels:
    copy = kernel
Pair = collections.namedtuple("Pair", "first second")
tuned = triton.autotune([triton.Config({"BLOCK": b}) for b in (32, 64)], key=["N"])(kernel)
guessed = triton.heuristics({"BLOCK": lambda args: 64})(kernel)
def launched(x, y):
    kernel[grid(x)](x, y, x.numel(), BLOCK=64)
    return y
@torch.library.custom_op(f"forms::copy{id(kernel)}", mutates_args=["y"])
def operator(x: torch.Tensor, y: torch.Tensor) -> None:
    kernel[grid(x)](x, y, x.numel(), BLOCK=64)
class Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        kernel[grid(x)](x, y, x.numel(), BLOCK=64)
        return y
"""
# What the module's `copy` is, beside the function `copied`.
FORMS = {
    "a function": "copy = copied",
    "a partial": "copy = functools.partial(copied)",
    "a partial of a partial": "copy = functools.partial(functools.partial(copied))",
    "an object": "class C:\n    def __call__(self, x): return copied(x)\ncopy = C()",
    "a method": "class C:\n    def f(self, x): return copied(x)\ncopy = C().f",
    "a static method": "class C:\n    @staticmethod\n    def f(x): return copied(x)\ncopy = C.f",
    "a class method": "class C:\n    @classmethod\n    def f(cls, x): return copied(x)\ncopy = C.f",
    "an object with slots": """
        class C:
            __slots__ = ("f",)
            def __init__(self, f): self.f = f
            def __call__(self, x): return self.f(x)
        copy = C(copied)
        """,
    "a lambda": "copy = lambda x: copied(x)",
    "a closure": "def made(f):\n    def g(x): return f(x)\n    return g\ncopy = made(copied)",
    "any arguments": "def copy(*arguments, **options): return copied(*arguments, **options)",
    "a default": "def copy(x, block=64, *, stream=None): return copied(x)",
    "a name of its own": "def copy(tensor, /): return copied(tensor)",
    "wrapped": """
        def twice(f):
            @functools.wraps(f)
            def g(*arguments): return f(*arguments)
            return g
        copy = twice(twice(copied))
        """,
    "without gradients": "copy = torch.no_grad()(copied)",
    "in inference mode": "copy = torch.inference_mode()(copied)",
    "not to be compiled": "copy = torch.compiler.disable(copied)",
    "dispatched by type": "copy = functools.singledispatch(copied)",
    "a module": """
        class C(torch.nn.Module):
            def forward(self, x): return copied(x)
        copy = C()
        """,
    "a function of autograd": """
        class C(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x): return copied(x)
        copy = C.apply
        """,
    "a method of types": "copy = types.MethodType(lambda self, x: copied(x), object())",
    "handed out by a generator": "copy = next(f for f in [copied])",
    "beside an odd object": """
        class Odd:
            __module__ = property(lambda self: 1 / 0)
            def __eq__(self, other): return 1 / 0
            def __repr__(self): return 1 / 0
        odd, odds = Odd(), [Odd()]
        copy = copied
        """,
    "a list of one": "def copy(x):\n    (y,) = [copied(x)]\n    return y",
}
# What a launcher may give in place of a result, and forms that give none.
RETURNED = {
    "nothing": "None",
    "a number": "1.5",
    "a string": "'x'",
    "a shape": "y.shape",
    "a list of two": "[y, y]",
    "a tuple of two": "(y, y)",
    "an empty tuple": "()",
    "no elements": "y[:0]",
    "a table": "{'y': y}",
    "a set": "{y}",
    "a generator": "(it for it in [y])",
    "the input": "x",
    "a view of the input": "x.view(-1)",
    "another shape": "y[None]",
    "too short": "y[:-1]",
    "another dtype": "y.view(torch.int32)",
    "an array": "y.numpy()",
    "on no device": "y.to('meta')",
    "a parameter": "torch.nn.Parameter(torch.empty_like(x))",
    "nothing stored": "torch.empty_like(x)",
    "made by torch": "x * 1",
    "sparse": "y.to_sparse()",
    "not implemented": "NotImplemented",
    "the function": "copied",
    "the module": "sys.modules[__name__]",
    "a nested list": "[[[y]]]",
    "an object that lies": """
        type("Tensor", (), {"__class__": torch.Tensor, "shape": x.shape, "dtype": x.dtype})()
        """,
    "an object that raises": """
        type("Odd", (), {"__getattr__": lambda self, name: 1 / 0, "__repr__": lambda self: 1 / 0})()
        """,
    "a subclass": "torch.empty_like(x).as_subclass(type('T', (torch.Tensor,), {}))",
}
WRONG_FORMS = {
    "a generator": "def copy(x): yield copied(x)",
    "a coroutine": "async def copy(x): return copied(x)",
    "an asynchronous generator": "async def copy(x): yield copied(x)",
    "a context": "@contextlib.contextmanager\ndef copy(x): yield copied(x)",
    "a cached property": "class C:\n    copy = functools.cached_property(copied)\ncopy = C.copy",
    "a property": "copy = property(copied)",
    "a skip": "import pytest\ndef copy(x): pytest.skip()",
    "a failure": "import pytest\ndef copy(x): pytest.fail('no')",
    "no parameter": "def copy(): return None",
    "two parameters": "def copy(x, y): return copied(x)",
    "by keyword only": "def copy(*, x): return copied(x)",
    "a class": "class copy:\n    def __init__(self, x): self.x = copied(x)",
    "a class without arguments": "class copy: pass",
    "the kernel": "copy = kernel",
    "a kernel with its grid": "copy = kernel[(1,)]",
    "an autotuner": "copy = tuned",
    "a built-in": "copy = len",
    "a type": "copy = int",
    "a number": "copy = 3",
    "nothing": "copy = None",
    "a module": "copy = torch",
    "a tensor": "copy = torch.zeros(3)",
    "deleted": "del copied",
    "endless recursion": "def copy(x): return copy(x)",
    "an exit": "def copy(x): raise SystemExit(0)",
    "a hard stop": "def copy(x): raise KeyboardInterrupt.__base__('x')",
    "an exception of its own": "class E(BaseException): pass\ndef copy(x): raise E",
    "a group": "def copy(x): raise OSError('x') from ValueError('y')",
    "an exception that cannot be shown": """
        class E(Exception):
            def __str__(self): raise self
        def copy(x): raise E
        """,
    "an exception that cannot be made": """
        class E(Exception):
            def __init__(self): 1 / 0
        def copy(x): raise E
        """,
    "a signature that lies": """
        def copy(x): return copied(x), 1
        copy.__signature__ = "none"
        """,
    "a name that is none": "copy = lambda x: x\ncopy.__name__ = copy.__qualname__ = ''",
    "code that is gone": "exec('def copy(x): return x[0]')",
    "a wrapper around itself": "def copy(x): return x\ncopy.__wrapped__ = copy",
    "a partial of nothing": "copy = functools.partial(functools.partial, copied)",
}

# What spoils a whole module.
MODULES = {
    "no name": "",
    "not Python": "def copy(x:\n",
    "a null": "copy = '\0'",
    "an exit": "raise SystemExit(3)",
    "a skip": "import pytest\npytest.skip(allow_module_level=True)",
    "an odd exception": "class E(BaseException):\n    def __str__(self): return 1\nraise E",
    "a missing import": "import no_such_module_at_all",
    "itself": "import importlib, sys\nfrom importlib import reload\nreload(sys.modules[__name__])",
    "recursion": "def f(): return f()\nf()",
    "a module of its own": "import sys, types\nsys.modules[__name__] = types.ModuleType('x')",
    "no module, and an exception": "del sys.modules[__name__]\nraise OSError",
    "no module": "import sys\ndel sys.modules[__name__]\ndef copy(x): return x",
    "a lookup": "def __getattr__(name): raise KeyError(name)",
    "a lookup that lies": "def __getattr__(name): return lambda x: x",
    "other globals": "globals().clear()",
    "no file": "__file__ = None\ndef copy(x): return x",
    "a kernel of one line": "copy = triton.jit(lambda x: x)",
    "an unbalanced kernel": "@triton.jit\ndef other(x,\n",
}


@pytest.fixture
def copying(tmp_path, monkeypatch):
    """Make a puzzle that copies a vector, with this source as its subject."""

    def make(source: str) -> Challenge:
        path = tmp_path / "01_pointwise" / "copy.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(HEADER + HELPERS + source)
        monkeypatch.setattr(settings, "subjects", tmp_path)
        monkeypatch.setattr(core_paths, "_modules", {})
        monkeypatch.setattr(loader, "load_reference", lambda *_: lambda x: x.clone())
        running.begin("")
        return Challenge("copy", paths.PUZZLES / "01_pointwise" / "test_copy.py", exact=True)

    return make


def copied(allocated: str, launched: str, returned: str = "y") -> str:
    body = f"y = {allocated}\n{textwrap.dedent(launched).strip()}\n"
    body += f"return {returned.strip()}\n"
    return f"def copied(x):\n{textwrap.indent(body, '    ')}\n"


def graded_in_all_ways(puzzle: Challenge) -> list[Wrong]:
    """Make every kind of check. Returns what is wrong."""
    x, faults = torch.randn(100, device=settings.device), []
    for check in (
        lambda: puzzle.check(x),
        lambda: puzzle.traffic(x).check(reads=1, writes=1),
        lambda: puzzle.compiles(x, targets=("sm_80",)),
        lambda: puzzle.declared_configs(x),
    ):
        try:
            check()
        except NotMeasured:
            continue
        except Wrong as wrong:
            faults.append(wrong)
    return faults


def right_sources():
    """Each way to allocate, to launch and to be called once at least, in mixed company."""
    ways = [ALLOCATED, [*LAUNCHED], [*FORMS]]
    mixed = random.Random(31)
    rows = list(itertools.zip_longest(*ways))
    for row in rows:
        chosen = [it or mixed.choice(way) for it, way in zip(row, ways, strict=True)]
        yield pytest.param(*chosen, id="-".join(chosen[1:]).replace(" ", "_"))


@pytest.mark.parametrize(("allocated", "launched", "form"), [*right_sources()])
def test_a_right_launcher_may_have_any_form(copying, allocated, launched, form):
    source = copied(allocated, LAUNCHED[launched]) + textwrap.dedent(FORMS[form])
    puzzle = copying(source)
    assert graded_in_all_ways(puzzle) == []
    with puzzle.given(multiprocessors=7):
        puzzle.check(torch.randn(100, device=settings.device))


def wrong_sources():
    plainly = LAUNCHED["plainly"], ALLOCATED[0]
    for name, returned in RETURNED.items():
        yield pytest.param(copied(plainly[1], plainly[0], returned) + "copy = copied", id=name)
    for name, form in (WRONG_FORMS | MODULES).items():
        yield pytest.param(copied(plainly[1], plainly[0]) + textwrap.dedent(form), id=f"is {name}")


@pytest.mark.parametrize("source", [*wrong_sources()])
@pytest.mark.filterwarnings("ignore:coroutine 'copy' was never awaited")
def test_any_other_launcher_is_a_wrong_answer(copying, source):
    faults = graded_in_all_ways(copying(source))
    # What compiles may be of another form than results.
    assert len(faults) >= 2
    for wrong in faults:
        said = words.message(wrong.fault)
        assert said.strip()
        assert "kernelgauge" not in said
        assert "Traceback" not in said
