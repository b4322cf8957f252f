# fault: past the last row no group is committed, and wait_group counts one
# cause: no group was committed after that of this copy
import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@gluon.jit
def gluon_softmax_kernel(
    x_ptr, y_ptr,
    M, N, stride_xm,
    BLOCK_N: gl.constexpr, SLOTS: gl.constexpr, VECTOR: gl.constexpr,
):  # fmt: skip
    layout: gl.constexpr = gl.BlockedLayout([VECTOR], [32], [gl.num_warps()], [0])
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    slots = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [SLOTS, BLOCK_N], plain)
    # 8 divides both: now the compiler knows it too
    N = N // 8 * 8
    stride_xm = stride_xm // 8 * 8
    cols = gl.arange(0, BLOCK_N, layout)
    inside = cols < N
    first = gl.program_id(0)
    step = gl.num_programs(0)
    for i in gl.static_range(SLOTS - 1):
        row = first + i * step
        source = x_ptr + row.to(gl.int64) * stride_xm + cols
        async_copy.async_copy_global_to_shared(slots.index(i), source, mask=inside & (row < M))
        async_copy.commit_group()
    for row in range(first, M, step):
        turn = (row - first) // step
        later = row + (SLOTS - 1) * step
        if later < M:
            source = x_ptr + later.to(gl.int64) * stride_xm + cols
            slot = slots.index((turn + SLOTS - 1) % SLOTS)
            async_copy.async_copy_global_to_shared(slot, source, mask=inside)
            async_copy.commit_group()
        async_copy.wait_group(SLOTS - 1)
        x = slots.index(turn % SLOTS).load(layout).to(gl.float32)
        x = gl.where(inside, x, float("-inf"))
        e = gl.exp(x - gl.max(x, 0))
        y = e / gl.sum(e, 0)
        out = y_ptr + row.to(gl.int64) * N + cols
        gl.store(out, y.to(y_ptr.dtype.element_ty), mask=inside)
    async_copy.wait_group(0)


def gluon_softmax(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)
    num_warps = 4 if N <= 4096 else 8
    VECTOR = 16 // x.element_size()
    BLOCK_N = max(triton.next_power_of_2(N), VECTOR * 32 * num_warps)
    programs = min(M, 2 * multiprocessors(x.device))
    gluon_softmax_kernel[(programs,)](
        x, y, M, N, x.stride(0),
        BLOCK_N=BLOCK_N, SLOTS=2, VECTOR=VECTOR, num_warps=num_warps,
    )  # fmt: skip
    return y
