"""07.1  Matrix times vector: one good answer.

A tile of partial sums is carried through the loop and added up once, since each time takes shuffles
between lanes. The tile follows the memory: 64 rows by 256 columns where columns of a are
contiguous, else up to 4096 columns of a few rows, or 1024 where each element is a load of its own.
A small matrix leaves in the L2 cache what the launch before stored.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def matvec_kernel(
    a_ptr, x_ptr, y_ptr,
    M, K,
    stride_am, stride_ak,
    stride_x,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr, POLICY: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    offs_m = pid * BLOCK_M + tl.arange(0, BLOCK_M)
    mask_m = offs_m < M
    # Partial sums: adding up a tile takes shuffles between lanes, so that is done once.
    acc = tl.zeros((BLOCK_M, BLOCK_K), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K).to(tl.int64)
        mask_k = offs_k < K
        a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
        mask = mask_m[:, None] & mask_k[None, :]
        a = tl.load(a_ptrs, mask=mask, other=0.0, eviction_policy=POLICY)  # [BLOCK_M, BLOCK_K]
        x = tl.load(x_ptr + offs_k * stride_x, mask=mask_k, other=0.0)  # [BLOCK_K]
        acc += a.to(tl.float32) * x.to(tl.float32)[None, :]
    tl.store(y_ptr + offs_m, tl.sum(acc, axis=1), mask=mask_m)


def policy(a: torch.Tensor) -> str:
    """How the L2 cache keeps a, of which each element is loaded once."""
    if a.device.type != "cuda":
        return ""
    # What the launch before stored is still there, and must be written to memory if a takes its
    # place. Where a is much larger, that is little beside it, and evict_first takes 1 to 5 % longer
    # (H100, 2026-11-27).
    cache = torch.cuda.get_device_properties(a.device).L2_cache_size
    return "evict_first" if a.numel() * a.element_size() <= 6 * cache else ""


def matvec(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    if a.dim() != 2 or a.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"a must be 2-D and float16, bfloat16 or float32, not {a.dtype} {tuple(a.shape)}"
        )
    M, K = a.shape
    if x.shape != (K,) or x.dtype != a.dtype:
        raise ValueError(f"x must be {a.dtype} {(K,)}, not {x.dtype} {tuple(x.shape)}")
    y = torch.empty(M, dtype=a.dtype, device=a.device)
    if a.stride(0) < a.stride(1):
        # The memory runs down the columns of a, and so does the tile.
        BLOCK_M, BLOCK_K, num_warps = 64, 256, 8
    else:
        # Where 16 does not divide the stride, each number takes a load and a register of its own.
        vectors = a.stride(0) % 16 == 0
        widest, tile, num_warps = (4096, 8192, 16) if vectors else (1024, 4096, 8)
        BLOCK_K = min(triton.next_power_of_2(K), widest)
        BLOCK_M = min(tile // BLOCK_K, 64)
    matvec_kernel[(triton.cdiv(M, BLOCK_M),)](
        a, x, y, M, K, *a.stride(), x.stride(0),
        BLOCK_M=BLOCK_M, BLOCK_K=BLOCK_K, POLICY=policy(a), num_warps=num_warps,
    )  # fmt: skip
    return y
