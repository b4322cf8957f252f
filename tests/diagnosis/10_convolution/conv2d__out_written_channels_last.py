# fault: out is stored as (N, P, Q, K)
# cause: in the order 0, 2, 3, 1
# never: terms are
from __future__ import annotations

import torch
import triton
import triton.language as tl


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
    f = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    pixel = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    n = pixel // PQ
    pq = pixel % PQ
    h0 = pq // Q * stride_h - padding_h
    w0 = pq % Q * stride_w - padding_w
    acc = tl.zeros((BLOCK_F, BLOCK_P), dtype=tl.float32)
    for start in range(0, C * R * S, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        c = k // (R * S)
        r = k % (R * S) // S
        s = k % S
        weight = tl.load(
            weight_ptr + f[:, None] * stride_wk
            + (c * stride_wc + r * stride_wr + s * stride_ws)[None, :],
            mask=(f[:, None] < K) & (k[None, :] < C * R * S), other=0.0,
        )  # fmt: skip
        h = h0[None, :] + (r * dilation_h)[:, None]
        w = w0[None, :] + (s * dilation_w)[:, None]
        inside = (h >= 0) & (h < H) & (w >= 0) & (w < W)
        x = tl.load(
            x_ptr + n[None, :] * stride_xn + c[:, None] * stride_xc + h * stride_xh + w * stride_xw,
            mask=inside & (k[:, None] < C * R * S) & (pixel[None, :] < NPQ), other=0.0,
        )  # fmt: skip
        acc = tl.dot(weight, x, acc)
    offs = pixel[None, :] * K + f[:, None]
    tl.store(out_ptr + offs, acc, mask=(f[:, None] < K) & (pixel[None, :] < NPQ))


def conv2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> torch.Tensor:
    N, C, H, W = x.shape
    K, _, R, S = weight.shape
    P = (H + 2 * padding - dilation * (R - 1) - 1) // stride + 1
    Q = (W + 2 * padding - dilation * (S - 1) - 1) // stride + 1
    out = torch.empty((N, K, P, Q), dtype=x.dtype, device=x.device)
    BLOCK_F, BLOCK_P, BLOCK_K = 32, 64, 32
    grid = (triton.cdiv(N * P * Q, BLOCK_P), triton.cdiv(K, BLOCK_F))
    conv2d_kernel[grid](
        x, weight, out, N * P * Q, P * Q, Q, C, H, W, K,
        *x.stride(), *weight.stride(),
        stride, stride, padding, padding, dilation, dilation,
        R=R, S=S, BLOCK_F=BLOCK_F, BLOCK_P=BLOCK_P, BLOCK_K=BLOCK_K,
    )  # fmt: skip
    return out
