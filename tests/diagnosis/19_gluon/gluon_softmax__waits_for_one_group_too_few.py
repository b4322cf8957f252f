# fault: wait_group(SLOTS) lets the copy of this row be under way
# cause: has landed
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
    BLOCK_N: gl.constexpr, SLOTS: gl.constexpr, WIDTH: gl.constexpr,
):  # fmt: skip
    layout: gl.constexpr = gl.BlockedLayout([WIDTH], [32], [gl.num_warps()], [0])
    # 8 divides both, and the compiler has to see it
    N = N // 8 * 8
    stride_xm = stride_xm // 8 * 8
    cols = gl.arange(0, BLOCK_N, layout=layout)
    slots = gl.allocate_shared_memory(
        x_ptr.dtype.element_ty, [SLOTS, BLOCK_N], gl.SwizzledSharedLayout(1, 1, 1, [0])
    )
    pid = gl.program_id(0)
    programs = gl.num_programs(0)
    row = pid
    async_copy.async_copy_global_to_shared(
        slots.index(0), x_ptr + row.to(gl.int64) * stride_xm + cols, mask=cols < N
    )
    async_copy.commit_group()
    for i in range(gl.cdiv(M - pid, programs)):
        # start the copy of the next row, if there is one
        following = row + programs
        async_copy.async_copy_global_to_shared(
            slots.index((i + 1) % SLOTS),
            x_ptr + following.to(gl.int64) * stride_xm + cols,
            mask=(cols < N) & (following < M),
        )
        async_copy.commit_group()
        # this row must be there
        async_copy.wait_group(SLOTS)
        x = slots.index(i % SLOTS).load(layout).to(gl.float32)
        x = gl.where(cols < N, x, -float("inf"))
        e = gl.exp(x - gl.max(x, 0))
        y = e / gl.sum(e, 0)
        y_ptrs = y_ptr + row.to(gl.int64) * stride_xm + cols
        gl.store(y_ptrs, y.to(y_ptr.dtype.element_ty), mask=cols < N)
        row = following
    async_copy.wait_group(0)


def gluon_softmax(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)
    num_warps = 4
    WIDTH = 16 // x.element_size()
    # a row has at least one piece for each thread
    BLOCK_N = max(triton.next_power_of_2(N), WIDTH * 32 * num_warps)
    programs = min(M, multiprocessors(x.device))
    gluon_softmax_kernel[(programs,)](
        x, y, M, N, x.stride(0), BLOCK_N=BLOCK_N, SLOTS=2, WIDTH=WIDTH, num_warps=num_warps
    )
    return y
