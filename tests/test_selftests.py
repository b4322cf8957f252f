"""What is tested at start-up: the patches of the interpreter, and the launches that are seen.

`test_executor` holds the tests of the hooks into memory accesses.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest
import triton
from triton.runtime import interpreter
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from course import paths
from kernelgauge.interpreter import overflow, patches, selftest
from kernelgauge.subject import autotuning, launch_recorder
from kernelgauge.subject import selftest as launch_selftest

VERSION = f"in triton {triton.__version__}: "

interpreted = pytest.mark.skipif(
    not triton.knobs.runtime.interpret, reason="needs TRITON_INTERPRET=1"
)


def output(script: str, *, interpret: bool) -> str:
    """Run Python in a process of its own, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=paths.ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1" if interpret else "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@interpreted
def test_patches_pass_and_quickly():
    patches.install()
    start = time.process_time()
    assert selftest.failures() == []
    assert time.process_time() - start < 0.3


@pytest.mark.proof
def test_without_patches_nearly_every_check_fails():
    script = "from kernelgauge.interpreter import selftest; print(len(selftest.failures()))"
    assert int(output(script, interpret=True)) > 10


@pytest.mark.proof
def test_importing_changes_nothing():
    script = """
import triton.language as tl, triton.runtime.interpreter as stock
from triton.language.semantic import TritonSemantic
changed = (stock, stock.InterpreterBuilder, stock.InterpretedFunction, stock.ReduceOps,
           stock.FunctionRewriter, TritonSemantic, tl.tensor, tl.block_type)
before = [dict(vars(owner)) for owner in changed]
from kernelgauge.interpreter import patches, selftest
from kernelgauge.subject import autotuning, selftest
print(before == [dict(vars(owner)) for owner in changed], stock.interpreter_builder.options.debug)
"""
    assert output(script, interpret=False) == "True False\n"


STOCK_METHODS = {
    "create_maxnumf": lambda self, x, y: self.binary_op(x, y, np.maximum),
    "create_fma": lambda self, x, y, z: interpreter.TensorHandle(
        x.data * y.data + z.data, z.dtype.scalar
    ),
}


@interpreted
@pytest.mark.parametrize(
    ("name", "check"), [("create_maxnumf", "tl.maximum of NaN"), ("create_fma", "tl.fma")]
)
def test_a_patch_that_is_gone_is_named(monkeypatch, name, check):
    monkeypatch.setattr(interpreter.InterpreterBuilder, name, STOCK_METHODS[name])
    ((line, only_slows),) = selftest.failures()
    assert line.startswith(f"patch without effect {VERSION}{check}: ")
    assert not only_slows


@interpreted
def test_a_function_that_is_gone_is_named(monkeypatch):
    monkeypatch.delattr(interpreter.InterpreterBuilder, "create_histogram")
    ((line, _),) = selftest.failures()
    assert "tl.histogram: " in line


@interpreted
def test_an_option_that_is_gone_is_named():
    overflow.set_option("debug", False)
    try:
        ((line, _),) = selftest.failures()
    finally:
        overflow.set_option("debug", True)
    assert "tl.device_assert: no AssertionError was raised" in line


@interpreted
@pytest.mark.parametrize(("table", "only_slows"), [("REPAIRS", False), ("SHORTCUTS", True)])
def test_a_name_that_triton_no_longer_calls_is_named(monkeypatch, table, only_slows):
    """Where it is there for right numbers it counts, though those that are checked are right."""
    renamed = (interpreter, "_renamed", print)
    monkeypatch.setattr(patches, table, [*getattr(patches, table), renamed])
    monkeypatch.setattr(patches, "PATCHES", [*patches.REPAIRS, *patches.SHORTCUTS])
    name = "triton.runtime.interpreter._renamed"
    line = f"patch without effect {VERSION}{name}: Triton never calls it"
    assert selftest.failures() == [(line, only_slows)]


@pytest.mark.proof
def test_what_is_there_for_speed_changes_no_number():
    script = """
from kernelgauge.interpreter import patches, selftest
stock = [(owner, name, vars(owner)[name]) for owner, name, _ in patches.SHORTCUTS]
patches.install()
for patch in stock:
    setattr(*patch)
print(len(stock) > 10, selftest.failures())
"""
    assert output(script, interpret=True) == "True []\n"


@pytest.fixture
def _autotuning(monkeypatch):
    monkeypatch.setattr(Autotuner, "run", Autotuner.run)
    autotuning.install()


@pytest.mark.usefixtures("_autotuning")
def test_launches_are_seen_and_quickly():
    start = time.process_time()
    assert launch_selftest.failures() == []
    assert time.process_time() - start < 0.1


def _launch_unseen(tuner, *args, grid, warmup=False, **kwargs):
    return tuner.fn.run(*args, grid=grid, warmup=warmup, **kwargs, BLOCK=16, num_warps=2)


@pytest.mark.usefixtures("_autotuning")
@pytest.mark.parametrize(
    ("owner", "name", "value", "fault"),
    [
        (Autotuner, "run", _launch_unseen, "Autotuner.run: configs launched: [16, 16] instead of"),
        (Autotuner, "prune_configs", None, "Autotuner.run: TypeError: "),
        (
            JITFunction,
            "__getitem__",
            lambda self, grid: lambda *_, **__: None,
            "JITFunction.run: calls: [True] ",
        ),
        (launch_recorder, "_launch", lambda *_: None, "JITFunction.run: AttributeError: "),
    ],
    ids=["no sweep", "no pruning", "run is not called", "nothing is noted"],
)
def test_launches_that_are_not_seen_are_named(monkeypatch, owner, name, value, fault):
    monkeypatch.setattr(owner, name, value)
    ((line, only_slows),) = launch_selftest.failures()
    assert line.startswith(f"launches are not seen {VERSION}{fault}")
    assert not only_slows
