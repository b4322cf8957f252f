"""11.3  int8 matmul: one good answer.

Sums are int32, which is exact, and both scales are applied once, after the loop. Tiles are 128 x
256 where rows begin at multiples of 16 bytes; large products get such rows by a copy. Otherwise, or
where x has few rows, they are smaller, and more programs load.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

# 131071 products of up to 2**14 fit into int32.
LONGEST = 2**17 - 1
# Multiplications from which on a copy of rows that are not aligned gains time.
LARGE = 2**26


@triton.jit
def pad_kernel(
    x_ptr, y_ptr,
    M, N, stride_xm, stride_xn, stride_ym,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """y = x, and 0 in the columns that y has more."""
    pid, tiles_n = tl.program_id(0).to(tl.int64), tl.cdiv(stride_ym, BLOCK_N)
    rows = (pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    cols = (pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    x_ptrs = x_ptr + rows * stride_xm + cols * stride_xn
    x = tl.load(x_ptrs, mask=(rows < M) & (cols < N), other=0)
    tl.store(y_ptr + rows * stride_ym + cols, x, mask=(rows < M) & (cols < stride_ym))


@triton.jit
def int8_matmul_kernel(
    x_ptr, weight_ptr, x_scale_ptr, weight_scale_ptr, out_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wn, stride_wk,
    stride_xs, stride_ws,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP_M * tiles_n) * GROUP_M
    rows = min(tiles_m - first_m, GROUP_M)
    place = pid % (GROUP_M * tiles_n)

    offs_m = (first_m + place % rows).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = (place // rows).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)
    mask_m, mask_n = offs_m < M, offs_n < N
    x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk
    weight_ptrs = weight_ptr + offs_k[:, None] * stride_wk + offs_n[None, :] * stride_wn
    x_step = tl.cast(stride_xk, tl.int64) * BLOCK_K
    weight_step = tl.cast(stride_wk, tl.int64) * BLOCK_K
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    # A path that skips the loop keeps Triton 3.6 from overlapping its wgmmas: see 07.5.
    tl.assume(K > 0)
    for k in range(0, K, BLOCK_K):
        mask_k = offs_k < K - k
        x = tl.load(x_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0)
        weight = tl.load(weight_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0)
        acc = tl.dot(x, weight, acc, out_dtype=tl.int32)
        x_ptrs += x_step
        weight_ptrs += weight_step

    x_scale = tl.load(x_scale_ptr + offs_m * stride_xs, mask=mask_m, other=0.0)
    weight_scale = tl.load(weight_scale_ptr + offs_n * stride_ws, mask=mask_n, other=0.0)
    out = acc.to(tl.float32) * x_scale[:, None] * weight_scale[None, :]
    out_ptrs = out_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(out_ptrs, out, mask=mask_m[:, None] & mask_n[None, :])


def padded(x: torch.Tensor) -> torch.Tensor:
    """A copy of x, with columns of 0 up to a multiple of 128: whole lines of the cache."""
    M, N = x.shape
    y = torch.empty(M, triton.cdiv(N, 128) * 128, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 4) * triton.cdiv(y.shape[1], 1024),)
    pad_kernel[grid](x, y, M, N, *x.stride(), y.stride(0), BLOCK_M=4, BLOCK_N=1024, num_warps=8)
    return y


def int8_matmul(
    x: torch.Tensor,
    weight: torch.Tensor,
    x_scale: torch.Tensor,
    weight_scale: torch.Tensor,
    out_dtype: torch.dtype = torch.bfloat16,
) -> torch.Tensor:
    if x.dim() != 2 or x.dtype != torch.int8 or x.shape[1] > LONGEST:
        raise ValueError(
            f"x must be int8 (M, K) with K of at most {LONGEST}, not {x.dtype} {tuple(x.shape)}"
        )
    M, K = x.shape
    if weight.dim() != 2 or weight.dtype != torch.int8 or weight.shape[1] != K:
        raise ValueError(f"weight must be int8 (N, {K}), not {weight.dtype} {tuple(weight.shape)}")
    N = weight.shape[0]
    for name, scale, size in (("x_scale", x_scale, M), ("weight_scale", weight_scale, N)):
        if scale.shape != (size,) or scale.dtype != torch.float32:
            raise ValueError(
                f"{name} must be float32 ({size},), not {scale.dtype} {tuple(scale.shape)}"
            )
    if out_dtype not in (torch.bfloat16, torch.float16, torch.float32):
        raise ValueError(f"out_dtype must be bfloat16, float16 or float32, not {out_dtype}")
    out = torch.empty((M, N), dtype=out_dtype, device=x.device)
    if K % 16 and M * N * K >= LARGE:
        x, weight = padded(x), padded(weight)
        K = x.shape[1]
    # 128 bytes along K: a whole line of the cache. Where few rows share a column of weight, its
    # bytes are the limit, and more programs with smaller tiles load them.
    # Rows that begin at no multiple of 16 bytes are loaded byte by byte, through registers.
    if M > 64 and K % 16 == 0:
        BLOCK_M, BLOCK_N, num_warps = 128, 256, 8
    else:
        BLOCK_M, BLOCK_N, num_warps = min(64, max(16, triton.next_power_of_2(M))), 64, 4
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    int8_matmul_kernel[grid](
        x, weight, x_scale, weight_scale, out,
        M, N, K,
        *x.stride(), *weight.stride(),
        x_scale.stride(0), weight_scale.stride(0),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=128, GROUP_M=16,
        num_warps=num_warps, num_stages=3,
    )  # fmt: skip
    return out
