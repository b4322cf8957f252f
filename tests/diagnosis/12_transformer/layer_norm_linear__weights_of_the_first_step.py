# fault: the norm's weights are loaded once, for the first step
# cause: gets what belongs to the first block of norm_weight and norm_bias

import torch
import triton
import triton.language as tl


@triton.jit
def row_statistics_kernel(
    x_ptr, mean_ptr, rstd_ptr,
    K, eps,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, K, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * K + offs, mask=offs < K, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / K
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, K, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * K + offs, mask=offs < K, other=0.0).to(tl.float32)
        d = tl.where(offs < K, x - mean, 0.0)
        squares += d * d
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, 1 / tl.sqrt(tl.sum(squares, axis=0) / K + eps))


@triton.jit
def layer_norm_linear_kernel(
    x_ptr, norm_weight_ptr, norm_bias_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, rstd_ptr,
    M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, BLOCK_N)
    pid_m, pid_n = tl.program_id(0) // tiles_n, tl.program_id(0) % tiles_n
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    mean = tl.load(mean_ptr + offs_m, mask=offs_m < M, other=0.0)[:, None]
    rstd = tl.load(rstd_ptr + offs_m, mask=offs_m < M, other=0.0)[:, None]
    offs_k = tl.arange(0, BLOCK_K)
    nw = tl.load(norm_weight_ptr + offs_k, mask=offs_k < K, other=0.0).to(tl.float32)
    nb = tl.load(norm_bias_ptr + offs_k, mask=offs_k < K, other=0.0).to(tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        x = tl.load(
            x_ptr + offs_m[:, None] * K + offs_k[None, :],
            mask=(offs_m < M)[:, None] & (offs_k < K)[None, :],
            other=0.0,
        ).to(tl.float32)
        normed = (x - mean) * rstd * nw[None, :] + nb[None, :]
        normed = tl.where((offs_k < K)[None, :], normed, 0.0)
        w = tl.load(
            weight_ptr + offs_n[:, None] * K + offs_k[None, :],
            mask=(offs_n < N)[:, None] & (offs_k < K)[None, :],
            other=0.0,
        )
        acc = tl.dot(normed.to(w.dtype), tl.trans(w), acc)
    acc += tl.load(bias_ptr + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)[None, :]
    y_ptrs = y_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(y_ptrs, acc, mask=(offs_m < M)[:, None] & (offs_n < N)[None, :])


def layer_norm_linear(
    x: torch.Tensor,
    norm_weight: torch.Tensor,
    norm_bias: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    eps: float = 1e-5,
) -> torch.Tensor:
    (M, K), N = x.shape, weight.shape[0]
    y = torch.empty(M, N, dtype=x.dtype, device=x.device)
    mean = torch.empty(M, dtype=torch.float32, device=x.device)
    rstd = torch.empty(M, dtype=torch.float32, device=x.device)
    row_statistics_kernel[(M,)](x, mean, rstd, K, eps, BLOCK=1024)
    BLOCK_M, BLOCK_N, BLOCK_K = 64, 64, 32
    layer_norm_linear_kernel[(triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)](
        x, norm_weight, norm_bias, weight, bias, y, mean, rstd, M, N, K,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K,
    )  # fmt: skip
    return y
