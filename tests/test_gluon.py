"""What a Gluon kernel may say, and what is said of barriers, run without a GPU."""

from __future__ import annotations

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier

from kernelgauge.memory.executor import KernelError
from kernelgauge.words import message
from tests.launching import found, interpreted_only, watched

pytestmark = interpreted_only


@gluon.jit
def double(x):
    return x * 2


@gluon.jit
def shared_kernel(x_ptr, y_ptr, M: gl.constexpr, N: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [gl.num_warps(), 1], [1, 0])
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    rows = gl.arange(0, M, gl.SliceLayout(1, layout))
    cols = gl.arange(0, N, gl.SliceLayout(0, layout))
    offsets = rows[:, None] * N + cols[None, :]
    x = gl.load(x_ptr + offsets)
    given = gl.allocate_shared_memory(gl.float32, [M, N], plain, x)
    gl.barrier()
    other = gl.allocate_shared_memory(gl.float32, [M, N], plain)
    other.store(gl.convert_layout(given.load(layout), layout))
    left = other.slice(0, N // 2, 1).load(layout)
    turned = other.permute([1, 0]).load(layout)
    flat = other.reshape([M * N]).load(layout)
    total = gl.sum(gl.sum(left, 1), 0) + gl.max(gl.max(turned, 1), 0) + gl.max(flat, 0)
    ones = gl.full([M, N], 1, gl.float32, layout) + gl.full_like(x, 2)
    none = gl.zeros([M, N], gl.float32, layout) + gl.zeros_like(x)
    gl.store(y_ptr + offsets, double(x) + total + ones + none)


def test_shared_memory_holds_what_was_stored():
    x, y = torch.arange(32.0).view(4, 8), torch.empty(4, 8)
    watched(shared_kernel, (1,), x, y, 4, 8)
    assert torch.equal(y, 2 * x + x[:, :4].sum() + 2 * x.max() + 3)


@gluon.jit
def barriers_kernel(x_ptr, HOW: gl.constexpr):
    ready = mbarrier.allocate_mbarrier()
    other = mbarrier.allocate_mbarrier(batch=2)
    mbarrier.init(ready, count=2)
    mbarrier.arrive(ready, count=1)
    mbarrier.arrive(ready, count=1, pred=False)
    mbarrier.wait(other.index(0), 0, pred=False)
    if HOW == "fence":
        fence_async_shared()
    if HOW == "slot":
        mbarrier.init(other.index(2), count=1)
    if HOW == "init":
        mbarrier.arrive(other.index(1), count=1)
    if HOW != "deadlock":
        mbarrier.arrive(ready, count=1)
    mbarrier.wait(ready, 0)


def test_arrivals_end_a_phase():
    watched(barriers_kernel, (1,), torch.empty(1), "right")


def test_a_deadlock_names_the_barrier_and_what_is_missing():
    wrong = found(barriers_kernel, (1,), torch.empty(1), "deadlock")
    assert wrong.kind == "barrier-deadlock"
    assert (
        "parity 0 of ready: it is in phase 0, with 1 of 2 arrivals missing, on which until now "
        "the kernel arrived"
    ) in message(wrong)


def test_a_barrier_is_named_with_its_slot():
    wrong = found(barriers_kernel, (1,), torch.empty(1), "init")
    assert wrong.kind == "barrier-before-init"
    assert "the kernel uses other[1], which nobody initialised" in message(wrong)


@gluon.jit
def barrier_of(count: gl.constexpr):
    made = mbarrier.allocate_mbarrier()
    mbarrier.init(made, count=count)
    return made


@gluon.jit
def made_elsewhere_kernel(x_ptr):
    first, second = barrier_of(1), mbarrier.allocate_mbarrier()
    mbarrier.arrive(second, count=1)
    mbarrier.wait(first, 0)


def test_a_barrier_without_a_name_gets_none():
    wrong = found(made_elsewhere_kernel, (1,), torch.empty(1))
    assert "the kernel uses shared memory, which nobody initialised" in message(wrong)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("fence", "fence_async_shared of Gluon runs on a GPU only"),
        ("slot", "slot 2 of other, which has 2"),
    ],
)
def test_what_cannot_be_done_is_said(how, said):
    with pytest.raises(KernelError, match=said):
        watched(barriers_kernel, (1,), torch.empty(1), how)
