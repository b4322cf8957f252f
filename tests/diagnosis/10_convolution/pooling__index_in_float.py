# fault: tl.where of an int32 index and the best index so far in the dtype of x rounds the index
# cause: passes through (b?float16|float32), which holds whole numbers exactly only up to
from __future__ import annotations

import torch
import triton
import triton.language as tl

Pair = int | tuple[int, int]


@triton.jit
def max_pool2d_kernel(
    x_ptr, out_ptr, indices_ptr,
    C, H, W, P, Q,
    stride_xn, stride_xc, stride_xh, stride_xw,
    STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr,
    PADDING_H: tl.constexpr, PADDING_W: tl.constexpr,
    KERNEL_H: tl.constexpr, KERNEL_W: tl.constexpr,
    BLOCK_Q: tl.constexpr,
):  # fmt: skip
    line = tl.program_id(0)  # (n, c, p)
    p = line % P
    c = line // P % C
    n = line // P // C
    q = tl.program_id(1) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    image = x_ptr + n * stride_xn + c * stride_xc

    best = tl.full((BLOCK_Q,), float("-inf"), tl.float32).to(x_ptr.dtype.element_ty)
    best_at = tl.zeros_like(best)
    for i in tl.static_range(KERNEL_H):
        h = p * STRIDE_H - PADDING_H + i
        row_inside = (h >= 0) & (h < H)
        for j in tl.static_range(KERNEL_W):
            w = q * STRIDE_W - PADDING_W + j
            inside = row_inside & (w >= 0) & (w < W) & (q < Q)
            value = tl.load(image + h * stride_xh + w * stride_xw, mask=inside, other=float("-inf"))
            better = value > best
            best = tl.where(better, value, best)
            best_at = tl.where(better, h * W + w, best_at)

    at = line * Q + q
    tl.store(out_ptr + at, best, mask=q < Q)
    tl.store(indices_ptr + at, best_at.to(tl.int64), mask=q < Q)


def pair(value: Pair) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)


def max_pool2d(
    x: torch.Tensor, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    kernel_h, kernel_w = pair(kernel_size)
    stride_h, stride_w = pair(kernel_size if stride is None else stride)
    padding_h, padding_w = pair(padding)
    N, C, H, W = x.shape
    P = (H + 2 * padding_h - kernel_h) // stride_h + 1
    Q = (W + 2 * padding_w - kernel_w) // stride_w + 1
    out = torch.empty((N, C, P, Q), dtype=x.dtype, device=x.device)
    indices = torch.empty((N, C, P, Q), dtype=torch.int64, device=x.device)
    BLOCK_Q = min(256, triton.next_power_of_2(Q))
    max_pool2d_kernel[(N * C * P, triton.cdiv(Q, BLOCK_Q))](
        x, out, indices,
        C, H, W, P, Q,
        *x.stride(),
        STRIDE_H=stride_h, STRIDE_W=stride_w,
        PADDING_H=padding_h, PADDING_W=padding_w,
        KERNEL_H=kernel_h, KERNEL_W=kernel_w,
        BLOCK_Q=BLOCK_Q, num_warps=1 if BLOCK_Q <= 64 else 4,
    )  # fmt: skip
    return out, indices
