# fault: (p - padding) * stride instead of p * stride - padding
# cause: padding is subtracted before stride multiplies
from __future__ import annotations

import torch
import triton
import triton.language as tl

Pair = int | tuple[int, int]


@triton.jit
def conv2d_kernel(
    x_ptr, weight_ptr, out_ptr,
    NPQ, PQ, Q, C, H, W, K,
    stride_xn, stride_xc, stride_xh, stride_xw,
    stride_wk, stride_wc, stride_wr, stride_ws,
    stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w,
    R: tl.constexpr, S: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    offs_f = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)  # filters
    offs_p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)  # pixels of all images
    n = offs_p // PQ
    p = offs_p % PQ // Q
    q = offs_p % Q
    acc = tl.zeros((BLOCK_F, BLOCK_P), dtype=tl.float32)
    for k in range(0, C * R * S, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        c = offs_k // (R * S)
        r = offs_k % (R * S) // S
        s = offs_k % S
        w_tile = tl.load(
            weight_ptr + offs_f[:, None] * stride_wk
            + (c * stride_wc + r * stride_wr + s * stride_ws)[None, :],
            mask=(offs_f[:, None] < K) & (offs_k[None, :] < C * R * S), other=0.0,
        )  # fmt: skip
        h = (p - padding_h)[None, :] * stride_h + (r * dilation_h)[:, None]
        w = (q - padding_w)[None, :] * stride_w + (s * dilation_w)[:, None]
        inside = (h >= 0) & (h < H) & (w >= 0) & (w < W)
        mask = inside & (offs_k[:, None] < C * R * S) & (offs_p[None, :] < NPQ)
        x_tile = tl.load(
            x_ptr + (n * stride_xn)[None, :] + (c * stride_xc)[:, None]
            + h * stride_xh + w * stride_xw,
            mask=mask, other=0.0,
        )  # fmt: skip
        acc = tl.dot(w_tile, x_tile, acc)
    out_ptrs = out_ptr + (n * K * PQ + offs_p % PQ)[None, :] + offs_f[:, None] * PQ
    mask = (offs_f[:, None] < K) & (offs_p[None, :] < NPQ)
    tl.store(out_ptrs, acc.to(out_ptr.dtype.element_ty), mask=mask)


def conv2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> torch.Tensor:
    stride = (stride, stride) if isinstance(stride, int) else stride
    padding = (padding, padding) if isinstance(padding, int) else padding
    dilation = (dilation, dilation) if isinstance(dilation, int) else dilation
    N, C, H, W = x.shape
    K, _, R, S = weight.shape
    P = (H + 2 * padding[0] - dilation[0] * (R - 1) - 1) // stride[0] + 1
    Q = (W + 2 * padding[1] - dilation[1] * (S - 1) - 1) // stride[1] + 1
    out = torch.empty((N, K, P, Q), dtype=x.dtype, device=x.device)
    BLOCK_F, BLOCK_P, BLOCK_K = 32, 64, 32
    grid = (triton.cdiv(N * P * Q, BLOCK_P), triton.cdiv(K, BLOCK_F))
    conv2d_kernel[grid](
        x, weight, out, N * P * Q, P * Q, Q, C, H, W, K,
        *x.stride(), *weight.stride(), *stride, *padding, *dilation,
        R=R, S=S, BLOCK_F=BLOCK_F, BLOCK_P=BLOCK_P, BLOCK_K=BLOCK_K,
    )  # fmt: skip
    return out
