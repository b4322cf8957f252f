# The matmul of Triton's tutorial with rows that are looked up: one program a block and a column of
# tiles, offsets of 32 bits.

import torch
import triton
import triton.language as tl


@triton.jit
def expert_gemm_kernel(
    x_ptr, weights_ptr, order_ptr, block_experts_ptr, y_ptr,
    M, N, K, top_k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    expert = tl.load(block_experts_ptr + block)
    if expert >= 0:
        rows = tl.load(order_ptr + block * BLOCK_M + tl.arange(0, BLOCK_M))
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(tl.cdiv(K, BLOCK_K)):
            k = start * BLOCK_K + tl.arange(0, BLOCK_K)
            x = tl.load(
                x_ptr + (rows[:, None] // top_k) * K + k[None, :],
                mask=(rows[:, None] < M) & (k[None, :] < K),
                other=0.0,
            )
            weight = tl.load(
                weights_ptr + expert * N * K + offs_n[None, :] * K + k[:, None],
                mask=(offs_n[None, :] < N) & (k[:, None] < K),
                other=0.0,
            )
            acc += tl.dot(x, weight)
        inside = (rows[:, None] < M) & (offs_n[None, :] < N)
        y_ptrs = y_ptr + rows[:, None] * N + offs_n[None, :]
        tl.store(y_ptrs, acc.to(y_ptr.dtype.element_ty), mask=inside)


def grouped_expert_gemm(x, weights, order, block_experts, top_k=1):
    (T, K), N, blocks = x.shape, weights.shape[1], len(block_experts)
    y = torch.empty((T * top_k, N), dtype=x.dtype, device=x.device)
    BLOCK_M, BLOCK_N = len(order) // blocks, 128
    grid = (blocks, triton.cdiv(N, BLOCK_N))
    expert_gemm_kernel[grid](
        x, weights, order, block_experts, y, T * top_k, N, K, top_k,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=64 if x.element_size() == 2 else 32,
    )  # fmt: skip
    return y
