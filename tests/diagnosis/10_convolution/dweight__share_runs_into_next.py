# fault: the mask of a step knows the number of pixels, not the end of the program's share
# cause: the last block of a program's share runs on into the share of the next one
from __future__ import annotations

import torch
import triton
import triton.language as tl

Pair = int | tuple[int, int]


@triton.jit
def conv2d_dweight_kernel(
    dy_ptr, x_ptr, partial_ptr,
    pixels, share,
    P, Q, C, H, W, K,
    stride_dn, stride_dk, stride_dp, stride_dq,
    stride_xn, stride_xc, stride_xh, stride_xw,
    stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w,
    R: tl.constexpr, S: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    tiles_c = tl.cdiv(C, BLOCK_C)
    f = tl.program_id(0) // tiles_c * BLOCK_F + tl.arange(0, BLOCK_F)
    c = tl.program_id(0) % tiles_c * BLOCK_C + tl.arange(0, BLOCK_C)
    r, s = tl.program_id(1) // S, tl.program_id(1) % S
    part = tl.program_id(2)
    first = part * share
    last = tl.minimum(first + share, pixels)

    acc = tl.zeros((BLOCK_F, BLOCK_C), dtype=tl.float32)
    for start in range(first, last, BLOCK_P):
        pixel = start + tl.arange(0, BLOCK_P)
        valid = pixel < pixels
        n = pixel // (P * Q)
        p = pixel // Q % P
        q = pixel % Q
        h = p * stride_h - padding_h + r * dilation_h
        w = q * stride_w - padding_w + s * dilation_w
        inside = valid & (h >= 0) & (h < H) & (w >= 0) & (w < W)
        dy_at = n * stride_dn + p * stride_dp + q * stride_dq
        dy = tl.load(
            dy_ptr + f[:, None] * stride_dk + dy_at[None, :],
            mask=(f < K)[:, None] & valid[None, :],
            other=0.0,
        )
        x_at = n * stride_xn + h * stride_xh + w * stride_xw
        x = tl.load(
            x_ptr + x_at[:, None] + c[None, :] * stride_xc,
            mask=inside[:, None] & (c < C)[None, :],
            other=0.0,
        )
        acc = tl.dot(dy, x, acc)

    to = ((part * K + f[:, None]) * C + c[None, :]) * (R * S) + r * S + s
    tl.store(partial_ptr + to, acc, mask=(f < K)[:, None] & (c < C)[None, :])


@triton.jit
def add_parts_kernel(
    partial_ptr, dweight_ptr,
    parts, size,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(parts):
        total += tl.load(partial_ptr + part * size + offs, mask=offs < size, other=0.0)
    tl.store(dweight_ptr + offs, total, mask=offs < size)


def conv2d_dweight(
    dy: torch.Tensor,
    x: torch.Tensor,
    kernel_size: Pair,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
) -> torch.Tensor:
    def pair(v):
        return (v, v) if isinstance(v, int) else tuple(v)

    N, K, P, Q = dy.shape
    _, C, H, W = x.shape
    R, S = pair(kernel_size)
    pixels = N * P * Q
    BLOCK_F = BLOCK_C = 64
    tiles = triton.cdiv(K, BLOCK_F) * triton.cdiv(C, BLOCK_C)
    # enough programs for a large GPU, but no share of fewer than 512 pixels
    parts = max(1, min(pixels // 512, triton.cdiv(512, tiles * R * S)))
    share = triton.cdiv(pixels, parts)
    dweight = torch.empty((K, C, R, S), dtype=x.dtype, device=x.device)
    partial = torch.empty((parts, K, C, R, S), dtype=torch.float32, device=x.device)
    conv2d_dweight_kernel[(tiles, R * S, parts)](
        dy, x, partial,
        pixels, share,
        P, Q, C, H, W, K,
        *dy.stride(), *x.stride(),
        *pair(stride), *pair(padding), *pair(dilation),
        R=R, S=S,
        BLOCK_F=BLOCK_F, BLOCK_C=BLOCK_C, BLOCK_P=64,
    )  # fmt: skip
    size = dweight.numel()
    add_parts_kernel[(triton.cdiv(size, 256),)](partial, dweight, parts, size, BLOCK=256)
    return dweight
