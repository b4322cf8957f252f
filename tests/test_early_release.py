"""An atomic that others wait for comes after the stores of all threads, or is rejected."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernelgauge.compilation import early_release
from tests.compiling import compiled, launch_of, load_kernels, rejection

KERNELS = """
CONST = tl.constexpr
@triton.jit
def last_merges(x_ptr, parts_ptr, count_ptr, out_ptr, P, BARRIER: CONST, BLOCK: CONST):
    pid = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    tl.store(parts_ptr + pid * BLOCK + offs, tl.load(x_ptr + pid * BLOCK + offs) * 2)
    if BARRIER:
        tl.debug_barrier()
    if tl.atomic_add(count_ptr, 1, sem="acq_rel") == P - 1:
        acc = tl.zeros([BLOCK], tl.float32)
        for part in range(P):
            acc += tl.load(parts_ptr + part * BLOCK + offs)
        tl.store(out_ptr + offs, acc)

@triton.jit
def next_waits(x_ptr, parts_ptr, count_ptr, out_ptr, P, BARRIER: CONST, BLOCK: CONST):
    pid = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    if pid < P:
        tl.store(parts_ptr + pid * BLOCK + offs, tl.load(x_ptr + pid * BLOCK + offs))
        if BARRIER:
            tl.debug_barrier()
        tl.atomic_xchg(count_ptr + pid, 1, sem="release")
    else:
        while tl.atomic_add(count_ptr + pid - P, 0, sem="acquire") == 0:
            pass
        tl.store(out_ptr + offs, tl.load(parts_ptr + (pid - P) * BLOCK + offs))

@triton.jit
def numbers(x_ptr, parts_ptr, count_ptr, out_ptr, P, BARRIER: CONST, BLOCK: CONST):
    pid = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    tl.store(parts_ptr + pid, tl.sum(tl.load(x_ptr + pid * BLOCK + offs)), mask=pid < P)
    if BARRIER:
        tl.debug_barrier()
    if tl.atomic_add(count_ptr, 1, mask=pid < P) == P - 1:
        tl.store(out_ptr, tl.sum(tl.load(parts_ptr + offs, mask=offs < P, other=0.0)))

@triton.jit
def counts(x_ptr, parts_ptr, count_ptr, out_ptr, P, BARRIER: CONST, BLOCK: CONST):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs) * 2)
    if tl.program_id(0) > P:
        tl.atomic_add(count_ptr, 1)

@triton.jit
def takes_tickets(x_ptr, parts_ptr, count_ptr, out_ptr, P, BARRIER: CONST, BLOCK: CONST):
    offs = tl.arange(0, BLOCK)
    tl.store(parts_ptr + offs, tl.load(x_ptr + offs))
    place = tl.atomic_add(count_ptr, 1)
    tl.store(out_ptr + place * BLOCK + offs, tl.load(x_ptr + offs))
"""


@pytest.fixture(scope="module")
def launch(tmp_path_factory):
    """Return a function that makes a launch of a kernel above."""
    module = load_kernels(tmp_path_factory.mktemp("kernels"), KERNELS)
    x = torch.zeros(1024)
    tensors = {"x_ptr": x, "parts_ptr": x, "count_ptr": x.int(), "out_ptr": x}

    def make(name: str, barrier: bool):
        sizes = {"P": 4, "BARRIER": barrier, "BLOCK": 256}
        return launch_of(getattr(module, name), tensors | sizes)

    return make


@pytest.mark.parametrize("name", ["last_merges", "next_waits"])
def test_a_tile_needs_a_barrier_before_the_atomic(launch, name):
    message = rejection(launch(name, False), kind="early-release", targets=("sm_80", "sm_90"))
    assert (
        f"{name} lets others load what it may still be storing for sm_80 (A100), sm_90 (H100)"
        in message
    )
    assert "hint: tl.debug_barrier() before the atomic" in message
    assert len(compiled(launch(name, True), targets=("sm_80", "sm_90"))) == 2


def test_the_message_names_the_store_and_the_atomic(launch):
    made = launch("last_merges", False)
    lines = Path(made.kernel.__code__.co_filename).read_text().splitlines()
    atomic, store = (
        1 + next(n for n, line in enumerate(lines) if text in line)
        for text in ("if tl.atomic_add", "tl.store(parts_ptr")
    )
    message = rejection(made, kind="early-release")
    assert f"kernels.py:{atomic}  " in message
    assert f"tl.store in line {store}:" in message


@pytest.mark.parametrize("name", ["numbers", "counts", "takes_tickets"])
def test_what_needs_no_barrier(launch, name):
    """One number by the atomic's own thread; a count nobody waits for; what nobody else loads."""
    assert len(compiled(launch(name, False), targets=("sm_80", "sm_90"))) == 2


def test_a_store_under_part_of_the_atomics_mask_is_of_the_same_thread():
    ptx = """
    ld.param.b64 %rd1, [kernel_param_0];
    ld.param.b64 %rd2, [kernel_param_1];
    mov.u32 %r1, %tid.x;
    setp.eq.b32 %p1, %r1, 0;
    setp.lt.s32 %p2, %r2, %r3;
    and.pred %p3, %p1, %p2;
    @%p3 st.global.b32 [ %rd1 + 0 ], { %r5 };
    @%p1 atom.global.gpu.acq_rel.add.u32 %r6, [ %rd2 + 0 ], %r7;
    setp.eq.b32 %p4, %r6, %r8;
    @%p4 bra $L1;
    ld.global.b32 { %r9 }, [ %rd1 + 0 ];
    """
    assert early_release.find(ptx) is None
    assert early_release.find(ptx.replace("@%p3 st", "@%p2 st")) == (0, 0)
    assert early_release.find(ptx.replace("@%p3 st", "st")) == (0, 0)
    assert (
        early_release.find(ptx.replace("@%p3 st", "st").replace("atom", "bar.sync 0;\natom"))
        is None
    )


def test_a_store_reaches_the_atomic_along_the_jumps():
    """The atomic after a loop may stand before the loop's own code."""
    ptx = """
    ld.param.b64 %rd1, [kernel_param_0];
    ld.param.b64 %rd2, [kernel_param_1];
    mov.u32 %r1, %tid.x;
    setp.eq.b32 %p1, %r1, 0;
    bra.uni $L__BB0_2;
$L__BB0_1:
    @%p1 atom.global.gpu.acq_rel.add.u32 %r6, [ %rd2 + 0 ], %r7;
    setp.eq.b32 %p4, %r6, %r8;
    ret;
$L__BB0_2:
    ld.global.b32 { %r9 }, [ %rd1 + 0 ];
    st.global.b32 [ %rd1 + 0 ], { %r5 };
    @%p2 bra $L__BB0_2;
    bra.uni $L__BB0_1;
    """
    assert early_release.find(ptx) == (0, 0)
    assert early_release.find(ptx.replace("@%p2 bra", "bar.sync 0;\n@%p2 bra")) is None
    assert early_release.find(ptx.replace("bra.uni $L__BB0_1", "ret")) is None
