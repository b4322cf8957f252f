"""What the tests of kernelgauge/memory share: kernels that copy, and watched launches."""

from __future__ import annotations

from pathlib import Path

import pytest
import triton
import triton.language as tl

from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Wrong
from kernelgauge.memory.watch import Watch
from kernelgauge.words import Fault, message

interpreted_only = pytest.mark.skipif(
    not settings.interpreted, reason="only the interpreter is watched"
)

ORDERS = pytest.mark.parametrize("order", ["ascending", "shuffled"])


@triton.jit
def copy_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr, MASK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if MASK == "none":
        tl.store(y_ptr + offs, tl.load(x_ptr + offs))
    elif MASK == "store":
        tl.store(y_ptr + offs, tl.load(x_ptr + offs), mask=offs < N)
    elif MASK == "load":
        x = tl.load(x_ptr + offs, mask=offs < N, other=0.0)
        tl.store(y_ptr + offs, x)
    elif MASK == "one too many":
        x = tl.load(x_ptr + offs, mask=offs <= N, other=0.0)
        tl.store(y_ptr + offs, x, mask=offs < N)
    else:
        x = tl.load(x_ptr + offs, mask=offs < N, other=0.0)
        tl.store(y_ptr + offs, x, mask=offs < N)


@triton.jit
def bytes_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr.to(tl.pointer_type(tl.int8)) + offs)
    tl.store(y_ptr.to(tl.pointer_type(tl.int8)) + offs, x)


@triton.jit
def descriptor_kernel(x_desc, y_desc, BLOCK: tl.constexpr):
    row, column = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    y_desc.store([row, column], x_desc.load([row, column]))


def watched(kernel, grid: tuple[int, ...], *args, **options) -> Watch:
    """Launch a kernel that must be right, under Watch(**options)."""
    with Watch(**options) as watch:
        kernel[grid](*args)
    return watch


def found(kernel, grid: tuple[int, ...], *args, **options) -> Fault:
    """Return the fault of a launch that must be wrong, under Watch(**options)."""
    with pytest.raises(Wrong) as caught:
        watched(kernel, grid, *args, **options)
    return caught.value.fault


def fault(kernel, grid: tuple[int, ...], *args, **options) -> str:
    """Return the message of a launch that must be wrong, under Watch(**options)."""
    return message(found(kernel, grid, *args, **options))


def line_of(kernel, text: str) -> str:
    """Return "file name:line" of the first line of a kernel that contains a text."""
    code = kernel.fn.__code__
    lines = Path(code.co_filename).read_text().splitlines()
    number = next(n for n in range(code.co_firstlineno, len(lines)) if text in lines[n - 1])
    return f"{Path(code.co_filename).name}:{number}"
