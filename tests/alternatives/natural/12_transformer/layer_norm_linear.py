# One launch: each program goes over its rows of x twice, first for the statistics.

import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm_linear_kernel(
    x_ptr, norm_weight_ptr, norm_bias_ptr, weight_ptr, bias_ptr, y_ptr,
    M, N, K,
    eps,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask_m = offs_m[:, None] < M
    x_rows = x_ptr + offs_m[:, None] * K
    first = tl.load(x_ptr + offs_m * K, mask=offs_m < M, other=0.0).to(tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    squares = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        mask = mask_m & (offs_k[None, :] < K)
        x = tl.load(x_rows + offs_k[None, :], mask=mask, other=0.0).to(tl.float32)
        away = tl.where(mask, x - first[:, None], 0.0)
        total += tl.sum(away, axis=1)
        squares += tl.sum(away * away, axis=1)
    shift = total / K
    mean = first + shift
    rstd = 1 / tl.sqrt(squares / K - shift * shift + eps)

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        mask_k = offs_k < K
        x = tl.load(x_rows + offs_k[None, :], mask=mask_m & mask_k[None, :], other=0.0)
        norm_weight = tl.load(norm_weight_ptr + offs_k, mask=mask_k, other=0.0)
        norm_bias = tl.load(norm_bias_ptr + offs_k, mask=mask_k, other=0.0)
        normed = (x - mean[:, None]) * rstd[:, None] * norm_weight + norm_bias
        w_ptrs = weight_ptr + offs_n[:, None] * K + offs_k[None, :]
        w = tl.load(w_ptrs, mask=(offs_n[:, None] < N) & mask_k[None, :], other=0.0)
        acc += tl.dot(normed.to(w.dtype), w.T)
    bias = tl.load(bias_ptr + offs_n, mask=offs_n < N, other=0.0)
    y_ptrs = y_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(y_ptrs, acc + bias[None, :], mask=mask_m & (offs_n[None, :] < N))


def layer_norm_linear(x, norm_weight, norm_bias, weight, bias, eps=1e-5):
    (M, K), N = x.shape, weight.shape[0]
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    layer_norm_linear_kernel[(triton.cdiv(M, 128), triton.cdiv(N, 128))](
        x, norm_weight, norm_bias, weight, bias, y, M, N, K, eps,
        BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, num_warps=8,
    )  # fmt: skip
    return y
