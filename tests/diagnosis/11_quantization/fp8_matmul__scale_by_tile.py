# fault: the row of weight_scale is the number of the tile of 64 columns, not n // 128
# cause: is the number of a tile of BLOCK_N

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def fp8_matmul_kernel(
    x_ptr, weight_ptr, x_scale_ptr, weight_scale_ptr, out_ptr,
    M, N, K,
    stride_xsm, stride_xsb,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    pid_m, pid_n = pid // tiles_n, pid % tiles_n
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    blocks = tl.cdiv(K, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for b in range(blocks):
        offs_k = b * BLOCK_K + tl.arange(0, BLOCK_K)
        x = tl.load(
            x_ptr + offs_m[:, None] * K + offs_k[None, :],
            mask=(offs_m[:, None] < M) & (offs_k[None, :] < K),
            other=0.0,
        )
        w = tl.load(
            weight_ptr + offs_n[None, :] * K + offs_k[:, None],
            mask=(offs_k[:, None] < K) & (offs_n[None, :] < N),
            other=0.0,
        )
        x_scale = tl.load(
            x_scale_ptr + offs_m * stride_xsm + b * stride_xsb, mask=offs_m < M, other=0.0
        )
        weight_scale = tl.load(weight_scale_ptr + pid_n * blocks + b)
        acc += tl.dot(x, w) * (x_scale * weight_scale)[:, None]
    out_ptrs = out_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(out_ptrs, acc, mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


def fp8_matmul(
    x: torch.Tensor,
    weight: torch.Tensor,
    x_scale: torch.Tensor,
    weight_scale: torch.Tensor,
    out_dtype: torch.dtype = torch.bfloat16,
) -> torch.Tensor:
    (M, K), N = x.shape, weight.shape[0]
    out = torch.empty((M, N), dtype=out_dtype, device=x.device)
    grid = (triton.cdiv(M, 64) * triton.cdiv(N, 64),)
    fp8_matmul_kernel[grid](
        x, weight, x_scale, weight_scale, out, M, N, K, *x_scale.stride(),
        BLOCK_M=64, BLOCK_N=64, BLOCK_K=128,
    )  # fmt: skip
    return out
