"""07.2  Tiled matmul: one good answer.

Tiles are 128 x 256 in 8 warps, so that an element of a is loaded once for 256 columns of c; tiles
of 64 x 64 load it four times as often. BLOCK_K is 128 bytes, a whole line of the cache. Numbers of
2 bytes in rows that are not aligned go through registers, a step ahead of the tensor cores.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def load_tiles(a_ptrs, b_ptrs, mask_m, mask_n, mask_k):
    # Both zeros past K are needed: a zero times whatever lies there could be NaN.
    a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)  # [BLOCK_M, BLOCK_K]
    b = tl.load(b_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)  # [BLOCK_K, BLOCK_N]
    return a, b


@triton.jit
def tiled_matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    ALIGNED: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)
    mask_m, mask_n = offs_m < M, offs_n < N
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    a_step = tl.cast(stride_ak, tl.int64) * BLOCK_K
    b_step = tl.cast(stride_bk, tl.int64) * BLOCK_K
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    if ALIGNED:
        for k in range(0, K, BLOCK_K):
            a, b = load_tiles(a_ptrs, b_ptrs, mask_m, mask_n, offs_k < K - k)
            acc = tl.dot(a, b, acc)
            a_ptrs += a_step
            b_ptrs += b_step
    else:
        # The compiler sends no such load to shared memory ahead of its use: so registers take the
        # next tiles while the tensor cores are at these. Past K the next ones are 0, and not used.
        a, b = load_tiles(a_ptrs, b_ptrs, mask_m, mask_n, offs_k < K)
        for k in range(BLOCK_K, K + BLOCK_K, BLOCK_K):
            a_ptrs += a_step
            b_ptrs += b_step
            next_a, next_b = load_tiles(a_ptrs, b_ptrs, mask_m, mask_n, offs_k < K - k)
            acc = tl.dot(a, b, acc)
            a, b = next_a, next_b
    c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(c_ptrs, acc, mask=mask_m[:, None] & mask_n[None, :])


def is_aligned(x: torch.Tensor) -> bool:
    """Whether the rows of x, or its columns, are contiguous and begin at multiples of 16 bytes."""
    long, short = x.stride() if x.stride(1) == 1 else x.stride()[::-1]
    return short == 1 and long * x.element_size() % 16 == 0 and x.data_ptr() % 16 == 0


def tiled_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dim() != 2 or a.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"a must be 2-D and float16, bfloat16 or float32, not {a.dtype} {tuple(a.shape)}"
        )
    M, K = a.shape
    if b.dim() != 2 or b.shape[0] != K or b.dtype != a.dtype:
        raise ValueError(f"b must be {a.dtype} ({K}, N), not {b.dtype} {tuple(b.shape)}")
    N = b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    BLOCK_M, BLOCK_N = 128, 256
    BLOCK_K = 128 // a.element_size()  # 128 bytes: a whole line of the cache
    # Loads of at least 4 bytes can go straight to shared memory. Smaller ones go through registers,
    # and beside a tile of 256 columns, or 64 steps of K, there are too few of them.
    aligned = a.element_size() == 4 or (K % 16 == 0 and is_aligned(a) and is_aligned(b))
    if not aligned:
        BLOCK_N, BLOCK_K = 128, 32
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    tiled_matmul_kernel[grid](
        a, b, c, M, N, K, *a.stride(), *b.stride(),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, ALIGNED=aligned,
        num_warps=8, num_stages=3,
    )  # fmt: skip
    return c
