"""What a Watch knows after the launches: which elements were stored, and by what."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from kernelgauge.core.verdict import Wrong
from kernelgauge.memory.watch import Watch
from tests.launching import bytes_kernel, copy_kernel, fault, interpreted_only, watched

pytestmark = interpreted_only


def test_elements_that_no_program_stored():
    y = torch.empty(100)
    watch = watched(copy_kernel, (1,), torch.randn(100), y, 100, 64, "right")
    assert watch.stored(y).tolist() == [True] * 64 + [False] * 36
    assert watch.stored(y[60:68]).tolist() == [True] * 4 + [False] * 4


def test_stored_elements_of_a_strided_view():
    y = torch.empty(20, 10)
    watch = watched(copy_kernel, (1,), torch.randn(64), y, 64, 64, "right")
    assert watch.stored(y.T).sum() == 64
    assert watch.stored(y[:, 0]).sum() == 7


@pytest.mark.parametrize(("nbytes", "stored"), [(32, 8), (2, 0)])
def test_an_element_is_stored_when_all_its_bytes_are(nbytes, stored):
    y = torch.empty(16)
    watch = watched(bytes_kernel, (1,), torch.randn(16), y, nbytes)
    assert watch.stored(y).tolist() == [True] * stored + [False] * (16 - stored)


def test_stored_elements_stay_stored():
    x, y = torch.randn(16), torch.empty(16)
    with Watch() as watch:
        copy_kernel[(1,)](x, y, 16, 16, "right")
        bytes_kernel[(1,)](x, y, 2)
    assert watch.stored(y).all()


def test_complex_tensors_as_pairs_of_floats():
    x = torch.randn(50, dtype=torch.complex64)
    y = torch.empty_like(x)
    pairs = torch.view_as_real(x), torch.view_as_real(y)
    watch = watched(copy_kernel, (2,), *pairs, 100, 64, "right")
    assert torch.equal(x, y)
    assert watch.stored(y).all()
    assert watch.stored(y).shape == (50,)
    message = fault(copy_kernel, (2,), *pairs, 100, 64, "none")
    assert "reads x[100..127] but x has 100 elements" in message


@pytest.mark.parametrize("before", [True, False], ids=["before a launch", "after it"])
def test_contents_changed_outside_a_kernel(before):
    y = torch.zeros(8)

    def run() -> None:
        with Watch() as watch:
            watch.remember(y, "y")
            if before:
                y.numpy()[3] = 7
            copy_kernel[(1,)](torch.randn(8), y, 8, 8, "right")
            if not before:
                y.numpy()[3] = 8

    with pytest.raises(Wrong, match=r"y was written outside a kernel: its element \[3\] changed"):
        run()


def test_contents_changed_by_kernels_or_with_leave():
    y, z = torch.zeros(8), torch.zeros(4, 4)
    with Watch() as watch:
        watch.remember(y)
        watch.remember(z)
        copy_kernel[(1,)](torch.randn(8), y, 8, 8, "right")
        z[1].zero_()
        z[1] += 1
        watch.remember(z[1])
        copy_kernel[(1,)](torch.randn(8), z, 8, 8, "right")


def test_the_order_must_be_known():
    with pytest.raises(ValueError, match="sideways"):
        Watch(order="sideways")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tensors_on_a_gpu_are_copied_to_the_host_and_back():
    x = torch.randn(100, device="cuda")
    y = torch.zeros_like(x)
    with Watch() as watch:
        watch.remember(y)
        copy_kernel[(2,)](x, y, 100, 64, "right")
        y.zero_()
        watch.remember(y)
        copy_kernel[(2,)](x, y, 100, 64, "right")
    assert torch.equal(x, y)
    assert watch.stored(y).all()
    assert "reads x[100..127]" in fault(copy_kernel, (2,), x, y, 100, 64, "none")
    watch = Watch()
    watch.remember(y)
    y.zero_()
    with pytest.raises(Wrong, match="outside a kernel"):
        watch.check_contents()


@triton.jit
def count_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr, CHANGE: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N, other=0.0)
    if CHANGE == "xchg":
        tl.atomic_xchg(y_ptr, tl.sum(x).to(tl.int32))
    else:
        tl.atomic_add(y_ptr, tl.sum(x).to(tl.int32))


def test_an_atomic_on_memory_that_nothing_has_set():
    y = torch.empty(1, dtype=torch.int32)
    watch = watched(count_kernel, (2,), torch.ones(100), y, 100, 64, "add")
    with pytest.raises(
        Wrong, match=r"tl.atomic_add.*\nupdates elements that nothing has initialized"
    ):
        watch.check_set([y])
    # What the launcher filled is not given.
    watch.check_set([])


def test_an_atomic_after_a_store_or_that_replaces_is_right():
    y = torch.empty(1, dtype=torch.int32)
    watched(count_kernel, (2,), torch.ones(100), y, 100, 64, "xchg").check_set([y])
    with Watch() as watch:
        copy_kernel[(1,)](torch.zeros_like(y), y, 1, 64, "right")
        count_kernel[(2,)](torch.ones(100), y, 100, 64, "add")
    watch.check_set([y])
