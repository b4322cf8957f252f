# fault: the rows of z are taken to be M elements long
# cause: stride|apart|rows? .*long|race|same element
import torch
import triton
import triton.language as tl


@triton.jit
def outer_add_kernel(x_ptr, y_ptr, z_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    mask_m = offs_m < M
    x = tl.load(x_ptr + offs_m, mask=mask_m, other=0)
    for start in range(0, N, BLOCK_N):
        offs_n = start + tl.arange(0, BLOCK_N)
        mask_n = offs_n < N
        y = tl.load(y_ptr + offs_n, mask=mask_n, other=0)
        z_ptrs = z_ptr + offs_m[:, None] * M + offs_n[None, :]
        tl.store(z_ptrs, x[:, None] + y[None, :], mask=mask_m[:, None] & mask_n[None, :])


def outer_add(x, y):
    M, N = x.numel(), y.numel()
    z = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK_M = 16
    outer_add_kernel[(triton.cdiv(M, BLOCK_M),)](x, y, z, M, N, BLOCK_M=BLOCK_M, BLOCK_N=256)
    return z
