# fault: r is k % (R * S) // R and s is k % R, where S belongs
# cause: r is 4 there, but weight has size 2 in dimension 2
# never: the mask lets index
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
    pixel = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    filters = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    n, place = pixel // PQ, pixel % PQ
    p, q = place // Q, place % Q
    acc = tl.zeros([BLOCK_F, BLOCK_P], tl.float32)
    for start in range(0, C * R * S, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        c = k // (R * S)
        r = k % (R * S) // R
        s = k % R
        h = p[None, :] * stride_h - padding_h + r[:, None] * dilation_h
        w = q[None, :] * stride_w - padding_w + s[:, None] * dilation_w
        inside = (h >= 0) & (h < H) & (w >= 0) & (w < W)
        x = tl.load(
            x_ptr + n.to(tl.int64)[None, :] * stride_xn + c[:, None] * stride_xc
            + h * stride_xh + w * stride_xw,
            mask=inside & (c < C)[:, None] & (pixel < NPQ)[None, :], other=0.0,
        )  # fmt: skip
        weight = tl.load(
            weight_ptr + filters[:, None] * stride_wk
            + (c * stride_wc + r * stride_wr + s * stride_ws)[None, :],
            mask=(filters < K)[:, None] & (c < C)[None, :], other=0.0,
        )  # fmt: skip
        acc = tl.dot(weight, x, acc)
    out = out_ptr + (n.to(tl.int64)[None, :] * K + filters[:, None]) * PQ + place[None, :]
    tl.store(out, acc, mask=(filters < K)[:, None] & (pixel < NPQ)[None, :])


def conv2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> torch.Tensor:
    N, C, H, W = x.shape
    K, _, R, S = weight.shape
    P = (H + 2 * padding - dilation * (R - 1) - 1) // stride + 1
    Q = (W + 2 * padding - dilation * (S - 1) - 1) // stride + 1
    out = torch.empty((N, K, P, Q), dtype=x.dtype, device=x.device)
    BLOCK_F, BLOCK_P, BLOCK_K = 64, 64, 32
    grid = (triton.cdiv(N * P * Q, BLOCK_P), triton.cdiv(K, BLOCK_F))
    conv2d_kernel[grid](
        x, weight, out,
        N * P * Q, P * Q, Q, C, H, W, K,
        *x.stride(), *weight.stride(),
        stride, stride, padding, padding, dilation, dilation,
        R=R, S=S, BLOCK_F=BLOCK_F, BLOCK_P=BLOCK_P, BLOCK_K=BLOCK_K,
    )  # fmt: skip
    return out
