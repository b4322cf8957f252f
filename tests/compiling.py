"""Launches of kernels for the tests of compilation, made without running anything."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from types import ModuleType

import pytest
import torch

from course import paths
from kernelgauge.compilation import ahead_of_time
from kernelgauge.core.launch import Launch
from kernelgauge.core.verdict import Wrong
from tests import kernels_to_compile as kernels

HEADER = """
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
"""

x, y = torch.zeros(4096), torch.zeros(4096)
square32 = torch.zeros(256, 256)
square16 = square32.half()

MATMUL = {"a_ptr": square16, "b_ptr": square16, "c_ptr": square32, "K": 256}
MATMUL |= {"stride_am": 256, "stride_bk": 256, "stride_cm": 256}
MATMUL |= {"PRECISION": "tf32", "EVEN": True, "BM": 64, "BN": 64, "BK": 32}


def load_kernels(folder: Path, source: str, name: str = "kernels") -> ModuleType:
    """Load a module with this source, below HEADER, in the way a learner's file is loaded."""
    path = folder / f"{name}.py"
    path.write_text(HEADER + textwrap.dedent(source))
    return paths.load(path)


def launch_from(folder: Path, body: str, above: str = "", name: str = "kernels") -> Launch:
    """Return a launch of `kernel(x_ptr, n)` with this body, in a module of its own."""
    signature = "@triton.jit\ndef kernel(x_ptr, n):\n"
    source = textwrap.dedent(above) + signature + textwrap.indent(textwrap.dedent(body), "    ")
    return launch_of(load_kernels(folder, source, name).kernel, {"x_ptr": x, "n": 20})


def launch_of(kernel, arguments: dict, **options) -> Launch:
    """Return a launch of a kernel, below all its decorators, by one program."""
    while hasattr(kernel, "fn"):
        kernel = kernel.fn
    constexprs = frozenset(name for name, kind in kernel.__annotations__.items() if kind)
    return Launch(kernel, (1, 1, 1), arguments, constexprs, options)


def pointwise(*, x=x, y=y, n=4096, **options) -> Launch:
    arguments = {"x_ptr": x, "y_ptr": y, "n": n, "scale": 2.0}
    arguments |= {"FUNCTION": kernels.square, "BLOCK": 1024}
    return launch_of(kernels.pointwise, arguments, **options)


def matmul(*, arguments: dict | None = None, **options) -> Launch:
    return launch_of(kernels.matmul, MATMUL | (arguments or {}), **options)


def slow_matmul() -> Launch:
    """Return a launch of a kernel that takes minutes to compile."""
    large = {"BM": 256, "BN": 256, "BK": 128, "PRECISION": "ieee"}
    return matmul(arguments={"a_ptr": square32, "b_ptr": square32} | large)


def compiled(*launches: Launch, targets=("sm_80",), **options) -> list[ahead_of_time.Compiled]:
    """Return the kernels of these launches, compiled for some targets."""
    subject = Path(launches[0].kernel.__code__.co_filename)
    return ahead_of_time.check_compiles(launches, targets, subject=subject, **options)


def rejection(
    launch: Launch, match: str | None = None, kind: str = "not-compiled", **options
) -> str:
    """Return the message of a launch that is rejected. Asserts that message and kind match."""
    with pytest.raises(Wrong, match=match) as wrong:
        compiled(launch, **options)
    fault = wrong.value.fault
    assert fault.kind == kind
    assert json.dumps(fault.plain())
    return str(wrong.value)
