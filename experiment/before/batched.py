"""07.4  Batched matmul: one good answer.

Products and tiles share one axis of the grid, so that neither ends at 65535, and tiles of one
product follow each other and find its factors in the cache. A batch of size 1 gets stride 0 by
expand, and the kernel need not know. Where 16 does not divide K, each number is a load of its own,
and tiles have 128 columns instead of 256, for which there are registers enough.
"""

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
    # One axis of the grid, since the others hold 65535 programs at most. All tiles of a product
    # come before the next product's, so that they find its factors in the cache.
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    tile = pid % (tiles_m * tiles_n)
    batch = (pid // (tiles_m * tiles_n)).to(tl.int64)
    offs_m = (tile % tiles_m).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = (tile // tiles_m).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)
    mask_m, mask_n = offs_m < M, offs_n < N
    a_ptr += batch * stride_ab
    b_ptr += batch * stride_bb
    c_ptr += batch * M * N
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    a_step = tl.cast(stride_ak, tl.int64) * BLOCK_K
    b_step = tl.cast(stride_bk, tl.int64) * BLOCK_K
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        mask_k = offs_k < K - k
        a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)  # [BLOCK_M, BLOCK_K]
        b = tl.load(b_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)  # [BLOCK_K, BLOCK_N]
        acc = tl.dot(a, b, acc)
        a_ptrs += a_step
        b_ptrs += b_step
    c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(c_ptrs, acc, mask=mask_m[:, None] & mask_n[None, :])


def batched_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dim() != 3 or a.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"a must be 3-D and float16, bfloat16 or float32, not {a.dtype} {tuple(a.shape)}"
        )
    M, K = a.shape[1:]
    if b.dim() != 3 or b.shape[1] != K or b.dtype != a.dtype:
        raise ValueError(f"b must be {a.dtype} (B, {K}, N), not {b.dtype} {tuple(b.shape)}")
    if a.shape[0] != b.shape[0] and 1 not in (a.shape[0], b.shape[0]):
        raise ValueError(f"b must have batch {a.shape[0]} like a, or 1, not {b.shape[0]}")
    B, N = max(a.shape[0], b.shape[0]), b.shape[2]
    a, b = a.expand(B, M, K), b.expand(B, K, N)  # a batch of size 1 gets stride 0
    c = torch.empty(B, M, N, dtype=a.dtype, device=a.device)
    # Where 16 does not divide K, each number is a load of its own, with an address of its own:
    # beside a tile of 256 columns there are too few registers for them.
    BLOCK_M, BLOCK_N = 128, 128 if K % 16 else 256
    BLOCK_K = 128 // a.element_size()  # 128 bytes: a whole line of the cache
    grid = (B * triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    batched_matmul_kernel[grid](
        a, b, c, M, N, K, *a.stride(), *b.stride(),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, num_warps=8, num_stages=3,
    )  # fmt: skip
    return c
