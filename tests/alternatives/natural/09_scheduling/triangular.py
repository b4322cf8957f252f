# Square tiles, the row from a square root, the diagonal tile made symmetric in registers and stored
# whole, the mirrored one transposed by tl.trans, and offsets of 32 bits.

import torch
import triton
import triton.language as tl


@triton.jit
def gram_matrix_kernel(
    a_ptr, c_ptr,
    M, K,
    stride_am, stride_ak,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    row = ((tl.sqrt(8.0 * pid + 1.0) - 1.0) / 2.0).to(tl.int32)
    if row * (row + 1) // 2 > pid:
        row -= 1
    if (row + 1) * (row + 2) // 2 <= pid:
        row += 1
    column = pid - row * (row + 1) // 2
    offs_m = row * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = column * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x_ptrs = a_ptr + offs_m[:, None] * stride_am + k[None, :] * stride_ak
        y_ptrs = a_ptr + offs_n[:, None] * stride_am + k[None, :] * stride_ak
        x = tl.load(x_ptrs, mask=(offs_m[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(y_ptrs, mask=(offs_n[:, None] < M) & (k[None, :] < K), other=0.0)
        acc += tl.dot(x, tl.trans(y))
    if row == column:
        acc = tl.where(offs_m[:, None] >= offs_n[None, :], acc, tl.trans(acc))
    c = acc.to(c_ptr.dtype.element_ty)
    c_ptrs = c_ptr + offs_m[:, None] * M + offs_n[None, :]
    tl.store(c_ptrs, c, mask=(offs_m[:, None] < M) & (offs_n[None, :] < M))
    if row != column:
        c_ptrs = c_ptr + offs_n[:, None] * M + offs_m[None, :]
        tl.store(c_ptrs, tl.trans(c), mask=(offs_n[:, None] < M) & (offs_m[None, :] < M))


def gram_matrix(a):
    M, K = a.shape
    c = torch.empty((M, M), dtype=a.dtype, device=a.device)
    BLOCK = 128
    tiles = triton.cdiv(M, BLOCK)
    gram_matrix_kernel[(tiles * (tiles + 1) // 2,)](
        a, c, M, K, *a.stride(),
        BLOCK_M=BLOCK, BLOCK_N=BLOCK, BLOCK_K=64 if a.element_size() == 2 else 32, num_warps=8,
    )  # fmt: skip
    return c
