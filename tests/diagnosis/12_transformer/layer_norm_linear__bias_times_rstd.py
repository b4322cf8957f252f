# fault: ((x - mean) * w + b) * rstd
# cause: rstd multiplies norm_bias
from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def statistics_kernel(
    x_ptr, mean_ptr, rstd_ptr,
    K, eps,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * K
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for k in range(0, K, BLOCK):
        offs = k + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + offs, mask=offs < K, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / K
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for k in range(0, K, BLOCK):
        offs = k + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs, mask=offs < K, other=0.0).to(tl.float32)
        d = tl.where(offs < K, x - mean, 0.0)
        squares += d * d
    var = tl.sum(squares, axis=0) / K
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, 1 / tl.sqrt(var + eps))


@triton.jit
def layer_norm_linear_kernel(
    x_ptr, norm_weight_ptr, norm_bias_ptr, weight_ptr, bias_ptr, y_ptr,
    mean_ptr, rstd_ptr,
    M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask_m = offs_m < M
    mask_n = offs_n < N
    mean = tl.load(mean_ptr + offs_m, mask=mask_m, other=0.0)[:, None]
    rstd = tl.load(rstd_ptr + offs_m, mask=mask_m, other=0.0)[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        mask_k = offs_k < K
        x = tl.load(
            x_ptr + offs_m[:, None] * K + offs_k[None, :],
            mask=mask_m[:, None] & mask_k[None, :], other=0.0,
        )  # fmt: skip
        w = tl.load(norm_weight_ptr + offs_k, mask=mask_k, other=0.0).to(tl.float32)[None, :]
        b = tl.load(norm_bias_ptr + offs_k, mask=mask_k, other=0.0).to(tl.float32)[None, :]
        normed = ((x.to(tl.float32) - mean) * w + b) * rstd
        normed = tl.where(mask_k[None, :], normed, 0.0).to(x.dtype)
        weight = tl.load(
            weight_ptr + offs_n[:, None] * K + offs_k[None, :],
            mask=mask_n[:, None] & mask_k[None, :], other=0.0,
        )  # fmt: skip
        acc = tl.dot(normed, tl.trans(weight), acc)
    acc += tl.load(bias_ptr + offs_n, mask=mask_n, other=0.0).to(tl.float32)[None, :]
    y_ptrs = y_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(y_ptrs, acc, mask=mask_m[:, None] & mask_n[None, :])


def layer_norm_linear(
    x: torch.Tensor,
    norm_weight: torch.Tensor,
    norm_bias: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    eps: float = 1e-5,
) -> torch.Tensor:
    M, K = x.shape
    N = weight.shape[0]
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    mean = torch.empty(M, dtype=torch.float32, device=x.device)
    rstd = torch.empty(M, dtype=torch.float32, device=x.device)
    statistics_kernel[(M,)](x, mean, rstd, K, eps, BLOCK=min(1024, triton.next_power_of_2(K)))
    BLOCK_M, BLOCK_N, BLOCK_K = 64, 64, 32
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    layer_norm_linear_kernel[grid](
        x, norm_weight, norm_bias, weight, bias, y, mean, rstd, M, N, K,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K,
    )  # fmt: skip
    return y
