"""How messages name the line of a kernel."""

from __future__ import annotations

from pathlib import Path

import torch
import triton
import triton.language as tl

from tests.launching import copy_kernel, fault, interpreted_only, line_of

pytestmark = interpreted_only


def test_the_path_is_relative_to_the_current_directory(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[1])
    message = fault(copy_kernel, (2,), torch.randn(100), torch.empty(100), 100, 64, "none")
    assert message.startswith("tests/launching.py:")


@triton.jit
def helper(ptrs):
    return tl.load(ptrs)


@triton.jit
def helped_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = helper(x_ptr + offs)
    tl.store(y_ptr + offs, x, mask=offs < N)


def test_an_access_in_a_helper_names_both_lines():
    message = fault(helped_kernel, (1,), torch.randn(5), torch.empty(5), 5, 8)
    first, _, third, *_ = message.splitlines()
    assert first.endswith(f"{line_of(helper, 'tl.load(ptrs)')}  tl.load(ptrs)")
    assert third.startswith("  called from ")
    assert line_of(helped_kernel, "helper(x_ptr") in third
    assert "reads x[5..7]" in message


@triton.jit
def and_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    both = tl.load(x_ptr) > 0 and tl.load(x_ptr + N) > 0
    tl.store(y_ptr + offs, both, mask=offs < N)


def test_one_of_two_accesses_on_a_line_names_the_whole_line():
    message = fault(and_kernel, (1,), torch.ones(5), torch.empty(5), 5, 8)
    place, what, *_ = message.splitlines()
    assert f"{line_of(and_kernel, 'both =')}  both = tl.load(x_ptr) > 0 and tl.load(" in place
    assert what == "program (0, 0, 0) reads x[5] but x has 5 elements: out of bounds"
