"""19.2  Gluon softmax: one good answer.

A row lies in as few warps as hold it at 64 elements a thread, so that up to 2048 elements are
summed without shared memory. Copies of two more tiles are on their way while one is computed.
Sizes are rewritten as multiples of what divides them, which tells the compiler that a piece of 16
bytes is whole.
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

LONGEST = 8192
# Of a tile, where rows are short enough: two programs fit a multiprocessor, with three tiles each.
TILE_BYTES = 32 * 1024


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@gluon.jit
def places(start, M, N, slots, layout: gl.constexpr):
    rows = start + gl.arange(0, slots.shape[1], gl.SliceLayout(1, layout))[:, None]
    cols = gl.arange(0, slots.shape[2], gl.SliceLayout(0, layout))[None, :]
    return rows.to(gl.int64), cols, (rows < M) & (cols < N)


@gluon.jit
def fetch(x_ptr, slots, turn, start, M, N, stride_xm, layout: gl.constexpr):
    rows, cols, mask = places(start, M, N, slots, layout)
    slot = slots.index(turn % slots.shape[0])
    async_copy.async_copy_global_to_shared(slot, x_ptr + rows * stride_xm + cols, mask=mask)
    # A group for each turn, also past the last row, so that the number of groups tells the turn.
    async_copy.commit_group()


@gluon.jit
def gluon_softmax_kernel(
    x_ptr, y_ptr,
    M, N, stride_xm,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, VECTOR: gl.constexpr, SLOTS: gl.constexpr,
    layout: gl.constexpr,
):  # fmt: skip
    # Both are multiples of VECTOR, which the compiler is told here.
    N = N // VECTOR * VECTOR
    stride_xm = stride_xm // VECTOR * VECTOR
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    slots = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [SLOTS, BLOCK_M, BLOCK_N], shared)
    first = gl.program_id(0) * BLOCK_M
    step = gl.num_programs(0) * BLOCK_M
    for slot in gl.static_range(SLOTS - 1):
        fetch(x_ptr, slots, slot, first + slot * step, M, N, stride_xm, layout)
    turns = gl.cdiv(M - first, step)
    for turn in range(turns):
        start, ahead = first + turn * step, turn + SLOTS - 1
        fetch(x_ptr, slots, ahead, first + ahead * step, M, N, stride_xm, layout)
        async_copy.wait_group(SLOTS - 1)
        x = slots.index(turn % SLOTS).load(layout).to(gl.float32)
        rows, cols, mask = places(start, M, N, slots, layout)
        # What is masked off a copy is 0 in shared memory.
        x = gl.where(cols < N, x, float("-inf"))
        exponents = (x - gl.max(x, axis=1)[:, None]) * 1.4426950408889634  # log2(e)
        exponentials = gl.exp2(exponents)
        y = exponentials * (1.0 / gl.sum(exponentials, axis=1))[:, None]
        gl.store(y_ptr + rows * N + cols, y.to(y_ptr.dtype.element_ty), mask=mask)
    async_copy.wait_group(0)


def gluon_softmax(x: torch.Tensor) -> torch.Tensor:
    if x.dim() != 2 or not x.is_floating_point() or x.shape[1] > LONGEST:
        raise ValueError(
            f"x must be 2-D and floating point with rows of at most {LONGEST} elements, "
            f"not {x.dtype} {tuple(x.shape)}"
        )
    M, N = x.shape
    VECTOR = 16 // x.element_size()
    if N % VECTOR or x.stride(0) % VECTOR or x.data_ptr() % 16 or x.stride(1) != 1:
        raise ValueError("x must have contiguous rows of whole 16 bytes, which begin at such too")
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK_N, num_warps = triton.next_power_of_2(N), 4
    warps_n = max(1, BLOCK_N // 2048)
    lanes_n = min(32, BLOCK_N // VECTOR)
    layout = gl.BlockedLayout(
        [1, VECTOR], [32 // lanes_n, lanes_n], [num_warps // warps_n, warps_n], [1, 0]
    )
    # Each thread has at least one piece, and at most 64 elements.
    whole = num_warps // warps_n * (32 // lanes_n)
    BLOCK_M = max(whole, min(TILE_BYTES // x.element_size(), 2**13) // BLOCK_N)
    SLOTS = 3
    each = min(4, 2 * TILE_BYTES // (BLOCK_M * BLOCK_N * x.element_size()))
    programs = each * multiprocessors(x.device)
    # Where tiles begin at different places in lines of 128 bytes, an even number would give some
    # programs only those that touch a line more: 0.350 ms instead of 0.340 (20011 x 6000, H100).
    if BLOCK_M * x.stride(0) * x.element_size() % 128:
        programs -= 1 - programs % 2
    programs = min(triton.cdiv(M, BLOCK_M), programs)
    gluon_softmax_kernel[(programs,)](
        x, y, M, N, x.stride(0),
        BLOCK_M, BLOCK_N, VECTOR, SLOTS, layout, num_warps=num_warps,
    )  # fmt: skip
    return y
