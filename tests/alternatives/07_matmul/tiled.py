"""A grid of one axis, down the columns; flat tiles, and the last step along K comes first."""

import torch
import triton
import triton.language as tl


@triton.jit
def tiled_matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    tiles_m = tl.cdiv(M, BLOCK_M)
    rows = (pid % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    cols = (pid // tiles_m * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    steps = tl.cdiv(K, BLOCK_K)
    for step in range(steps):
        offs_k = tl.cast(steps - 1 - step, tl.int64) * BLOCK_K + tl.arange(0, BLOCK_K)
        down, across = offs_k[:, None], offs_k[None, :]
        a_ptrs = a_ptr + rows * stride_am + across * stride_ak
        b_ptrs = b_ptr + down * stride_bk + cols * stride_bn
        a = tl.load(a_ptrs, mask=(rows < M) & (across < K), other=0.0)
        b = tl.load(b_ptrs, mask=(down < K) & (cols < N), other=0.0)
        acc += tl.dot(a, b)
    tl.store(c_ptr + rows * N + cols, acc, mask=(rows < M) & (cols < N))


def tiled_matmul(a, b):
    if a.dim() != 2 or a.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError("a must be 2-D and float16, bfloat16 or float32")
    if b.dim() != 2 or b.shape[0] != a.shape[1] or b.dtype != a.dtype:
        raise ValueError("b must be (K, N) of a's dtype")
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, 32) * triton.cdiv(N, 64),)
    tiled_matmul_kernel[grid](
        a, b, c, M, N, K, *a.stride(), *b.stride(), BLOCK_M=32, BLOCK_N=64, BLOCK_K=64
    )
    return c
