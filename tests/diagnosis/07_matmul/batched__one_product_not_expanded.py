# fault: the stride of a batch of size 1 is multiplied by the number of the product
# cause: its stride there must be 0
# never: check its // and %

import torch
import triton
import triton.language as tl


@triton.jit
def batched_matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_ab, stride_am, stride_ak,
    stride_bb, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    pid = tl.program_id(0)
    i = pid // (tiles_m * tiles_n)
    tile = pid % (tiles_m * tiles_n)
    offs_m = tile // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    a_ptrs = a_ptr + i * stride_ab + offs_m[:, None] * stride_am
    b_ptrs = b_ptr + i * stride_bb + offs_n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        mask_a = (offs_m[:, None] < M) & (offs_k[None, :] < K)
        mask_b = (offs_k[:, None] < K) & (offs_n[None, :] < N)
        a = tl.load(a_ptrs + offs_k[None, :] * stride_ak, mask=mask_a, other=0.0)
        b = tl.load(b_ptrs + offs_k[:, None] * stride_bk, mask=mask_b, other=0.0)
        acc = tl.dot(a, b, acc)
    c_ptrs = c_ptr + i * M * N + offs_m[:, None] * N + offs_n[None, :]
    tl.store(c_ptrs, acc, mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


def batched_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    B = max(a.shape[0], b.shape[0])
    M, K = a.shape[1:]
    N = b.shape[2]
    c = torch.empty((B, M, N), dtype=a.dtype, device=a.device)
    BLOCK_M, BLOCK_N, BLOCK_K = 64, 64, 32
    grid = (B * triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    batched_matmul_kernel[grid](
        a, b, c, M, N, K, *a.stride(), *b.stride(),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K,
    )  # fmt: skip
    return c
