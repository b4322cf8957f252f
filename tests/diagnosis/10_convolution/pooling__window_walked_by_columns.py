# fault: the window is walked column by column, so that ties go to another element
# cause: the first by columns wins

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
    pid = tl.program_id(0).to(tl.int64)
    blocks_q = tl.cdiv(Q, BLOCK_Q)
    row = pid // blocks_q  # (n * C + c) * P + p
    p = row % P
    c = row // P % C
    n = row // P // C
    q = (pid % blocks_q) * BLOCK_Q + tl.arange(0, BLOCK_Q)  # [BLOCK_Q]
    mask_q = q < Q
    x_ptr += n * stride_xn + c * stride_xc
    best = tl.full((BLOCK_Q,), -float("inf"), dtype=tl.float32)
    index = tl.full((BLOCK_Q,), -1, dtype=tl.int64)
    for s in tl.static_range(KERNEL_W):
        w = q * STRIDE_W - PADDING_W + s
        for r in tl.static_range(KERNEL_H):
            h = p * STRIDE_H - PADDING_H + r
            inside = mask_q & (h >= 0) & (h < H) & (w >= 0) & (w < W)
            x = tl.load(x_ptr + h * stride_xh + w * stride_xw, mask=inside, other=-float("inf"))
            x = x.to(tl.float32)
            # The first element that lies in x counts, even if it is -inf.
            better = inside & ((x > best) | (index < 0))
            best = tl.where(better, x, best)
            index = tl.where(better, h * W + w, index)
    tl.store(out_ptr + row * Q + q, best, mask=mask_q)
    tl.store(indices_ptr + row * Q + q, index, mask=mask_q)


def max_pool2d(
    x: torch.Tensor, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    if stride is None:
        stride = kernel_size
    kernel_h, kernel_w = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
    stride_h, stride_w = (stride, stride) if isinstance(stride, int) else stride
    padding_h, padding_w = (padding, padding) if isinstance(padding, int) else padding
    N, C, H, W = x.shape
    P = (H + 2 * padding_h - kernel_h) // stride_h + 1
    Q = (W + 2 * padding_w - kernel_w) // stride_w + 1
    out = torch.empty((N, C, P, Q), dtype=x.dtype, device=x.device)
    indices = torch.empty((N, C, P, Q), dtype=torch.int64, device=x.device)
    BLOCK_Q = min(128, triton.next_power_of_2(Q))
    grid = (N * C * P * triton.cdiv(Q, BLOCK_Q),)
    max_pool2d_kernel[grid](
        x, out, indices, C, H, W, P, Q, *x.stride(),
        STRIDE_H=stride_h, STRIDE_W=stride_w, PADDING_H=padding_h, PADDING_W=padding_w,
        KERNEL_H=kernel_h, KERNEL_W=kernel_w, BLOCK_Q=BLOCK_Q, num_warps=1 if BLOCK_Q <= 32 else 4,
    )  # fmt: skip
    return out, indices
