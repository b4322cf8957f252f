import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy


def multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@gluon.jit
def gluon_softmax_kernel(x_ptr, y_ptr, M, N, stride_xm, BLOCK_N: gl.constexpr, VEC: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([VEC], [32], [4], [0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    # Rows are whole pieces of 16 bytes, which the compiler has to see.
    N = N // VEC * VEC
    stride_xm = stride_xm // VEC * VEC
    rows = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [2, BLOCK_N], shared)
    cols = gl.arange(0, BLOCK_N, layout)
    row = gl.program_id(0)
    async_copy.async_copy_global_to_shared(
        rows.index(0), x_ptr + row * stride_xm + cols, mask=cols < N
    )
    async_copy.commit_group()
    slot = 0
    for row in range(gl.program_id(0), M, gl.num_programs(0)):
        async_copy.wait_group(0)
        following = row + gl.num_programs(0)
        async_copy.async_copy_global_to_shared(
            rows.index(1 - slot),
            x_ptr + following * stride_xm + cols,
            mask=(cols < N) & (following < M),
        )
        async_copy.commit_group()
        x = rows.index(slot).load(layout).to(gl.float32)
        x = gl.where(cols < N, x, float("-inf"))
        e = gl.exp(x - gl.max(x, axis=0))
        y = e / gl.sum(e, axis=0)
        gl.store(y_ptr + row * N + cols, y.to(y_ptr.dtype.element_ty), mask=cols < N)
        slot = 1 - slot
    async_copy.wait_group(0)


def gluon_softmax(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_N = triton.next_power_of_2(N)
    grid = (min(M, 4 * multiprocessors(x.device)),)
    gluon_softmax_kernel[grid](
        x, y, M, N, x.stride(0), BLOCK_N, 16 // x.element_size(), num_warps=4
    )
    return y
