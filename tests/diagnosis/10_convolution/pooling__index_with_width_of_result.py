# fault: indices are h * Q + w instead of h * W + w
# cause: multiplied by the width of the result
from __future__ import annotations

import torch
import triton
import triton.language as tl


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
    pid = tl.program_id(0).to(tl.int64)
    q = tl.program_id(1) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    p = pid % P
    c = pid // P % C
    n = pid // P // C
    x_ptr += n * stride_xn + c * stride_xc
    best = tl.full((BLOCK_Q,), -float("inf"), dtype=tl.float32)
    index = tl.full((BLOCK_Q,), -1, dtype=tl.int64)
    for r in tl.static_range(KERNEL_H):
        for s in tl.static_range(KERNEL_W):
            h = p * STRIDE_H - PADDING_H + r
            w = q * STRIDE_W - PADDING_W + s
            inside = (h >= 0) & (h < H) & (w >= 0) & (w < W) & (q < Q)
            x = tl.load(x_ptr + h * stride_xh + w * stride_xw, mask=inside, other=-float("inf")).to(
                tl.float32
            )
            better = inside & ((x > best) | (index < 0))
            best = tl.where(better, x, best)
            index = tl.where(better, h * Q + w, index)
    tl.store(out_ptr + pid * Q + q, best, mask=q < Q)
    tl.store(indices_ptr + pid * Q + q, index, mask=q < Q)


def max_pool2d(
    x: torch.Tensor, kernel_size: int, stride: int | None = None, padding: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    if stride is None:
        stride = kernel_size
    N, C, H, W = x.shape
    P = (H + 2 * padding - kernel_size) // stride + 1
    Q = (W + 2 * padding - kernel_size) // stride + 1
    out = torch.empty((N, C, P, Q), dtype=x.dtype, device=x.device)
    indices = torch.empty((N, C, P, Q), dtype=torch.int64, device=x.device)
    BLOCK_Q = min(128, triton.next_power_of_2(Q))
    max_pool2d_kernel[(N * C * P, triton.cdiv(Q, BLOCK_Q))](
        x, out, indices, C, H, W, P, Q, *x.stride(),
        STRIDE_H=stride, STRIDE_W=stride, PADDING_H=padding, PADDING_W=padding,
        KERNEL_H=kernel_size, KERNEL_W=kernel_size, BLOCK_Q=BLOCK_Q,
    )  # fmt: skip
    return out, indices
