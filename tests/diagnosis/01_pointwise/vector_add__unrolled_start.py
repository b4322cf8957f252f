# fault: programs begin a block apart, and each adds several blocks
# cause: program \(1, 0, 0\) begins at element 1024, among the elements 0 to 4095
# never: has all

import torch
import triton
import triton.language as tl


@triton.jit
def vector_add_kernel(
    x_ptr, y_ptr, z_ptr,
    N,
    BLOCK: tl.constexpr,
    UNROLL: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    start = pid * BLOCK
    for i in tl.static_range(UNROLL):
        offs = start + i * BLOCK + tl.arange(0, BLOCK)
        mask = offs < N
        x = tl.load(x_ptr + offs, mask=mask)
        y = tl.load(y_ptr + offs, mask=mask)
        tl.store(z_ptr + offs, x + y, mask=mask)


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x)
    N = x.numel()
    BLOCK, UNROLL = 1024, 4
    vector_add_kernel[(triton.cdiv(N, BLOCK * UNROLL),)](x, y, z, N, BLOCK=BLOCK, UNROLL=UNROLL)
    return z
