"""15.3  Products with experts: one good answer.

Rows of x are looked up through the sorted assignments as they are loaded, and rows of the result
are stored by assignment, so that no sorted copy exists. Blocks are taken in groups of 8, so that
those of one expert share tiles of its weight in the L2 cache. Padding is found by one comparison,
which masks loads and stores.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def expert_gemm_kernel(
    x_ptr, weights_ptr, order_ptr, block_experts_ptr, y_ptr,
    M, N, K, top_k, blocks,
    stride_xm, stride_xk,
    stride_we, stride_wn, stride_wk,
    stride_order, stride_experts,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    # Blocks of one expert are neighbours: in the order of 07.3 they share tiles of its weight.
    pid = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP_M * tiles_n) * GROUP_M
    rows = min(blocks - first_m, GROUP_M)
    place = pid % (GROUP_M * tiles_n)
    block = (first_m + place % rows).to(tl.int64)
    expert = tl.load(block_experts_ptr + block * stride_experts).to(tl.int64)
    if expert < 0:
        return

    offs_m = block * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = (place // rows).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)
    assignments = tl.load(order_ptr + offs_m * stride_order).to(tl.int64)
    mask_m, mask_n = assignments < M, offs_n < N
    tokens = assignments // top_k
    x_ptrs = x_ptr + tokens[:, None] * stride_xm + offs_k[None, :] * stride_xk
    weights_ptrs = weights_ptr + expert * stride_we
    weights_ptrs += offs_k[:, None] * stride_wk + offs_n[None, :] * stride_wn
    x_step = tl.cast(stride_xk, tl.int64) * BLOCK_K
    weights_step = tl.cast(stride_wk, tl.int64) * BLOCK_K
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # As in 07.5: with a path that skips the loop, Triton 3.6 waits for each wgmma.
    tl.assume(K > 0)
    for k in range(0, K, BLOCK_K):
        mask_k = offs_k < K - k
        x = tl.load(x_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
        weight = tl.load(weights_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
        acc = tl.dot(x, weight, acc)
        x_ptrs += x_step
        weights_ptrs += weights_step
    y_ptrs = y_ptr + assignments[:, None] * N + offs_n[None, :]
    tl.store(y_ptrs, acc, mask=mask_m[:, None] & mask_n[None, :])


def grouped_expert_gemm(
    x: torch.Tensor,
    weights: torch.Tensor,
    order: torch.Tensor,
    block_experts: torch.Tensor,
    top_k: int = 1,
) -> torch.Tensor:
    if x.dim() != 2 or x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"x must be 2-D and float16, bfloat16 or float32, not {x.dtype} {tuple(x.shape)}"
        )
    T, K = x.shape
    if weights.dim() != 3 or weights.shape[2] != K or weights.dtype != x.dtype:
        raise ValueError(
            f"weights must be {x.dtype} (E, N, {K}), not {weights.dtype} {tuple(weights.shape)}"
        )
    for name, entries in (("order", order), ("block_experts", block_experts)):
        if entries.dim() != 1 or entries.dtype != torch.int32:
            raise ValueError(
                f"{name} must be 1-D and int32, not {entries.dtype} {tuple(entries.shape)}"
            )
    blocks = block_experts.numel()
    if order.numel() not in (16 * blocks, 32 * blocks, 64 * blocks, 128 * blocks):
        raise ValueError(
            f"order must hold {blocks} blocks of 16, 32, 64 or 128, not {order.numel()} places"
        )
    if top_k < 1:
        raise ValueError(f"top_k must be at least 1, not {top_k}")
    M, N = T * top_k, weights.shape[1]
    # A dropped assignment has no program that could store its row.
    y = torch.zeros((M, N), dtype=x.dtype, device=x.device)
    BLOCK_M = order.numel() // blocks
    BLOCK_N = min(256 if BLOCK_M > 32 else 128, max(16, triton.next_power_of_2(N)))
    BLOCK_K = 128 // x.element_size()  # 128 bytes: a whole line of the cache
    expert_gemm_kernel[(blocks * triton.cdiv(N, BLOCK_N),)](
        x, weights, order, block_experts, y, M, N, K, top_k, blocks,
        *x.stride(), *weights.stride(), order.stride(0), block_experts.stride(0),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=8,
        num_warps=8 if BLOCK_M * BLOCK_N > 128 * 128 else 4, num_stages=3,
    )  # fmt: skip
    return y
