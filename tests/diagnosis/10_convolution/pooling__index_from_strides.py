# fault: the index is h * stride_xh + w * stride_xw
# cause: made with the strides of x
# never: counted twice
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
    row = tl.program_id(0)  # (n * C + c) * P + p
    p = row % P
    plane = row // P
    n, c = plane // C, plane % C
    q = tl.program_id(1) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    image = x_ptr + n.to(tl.int64) * stride_xn + c * stride_xc
    best = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    index = tl.zeros([BLOCK_Q], tl.int64)
    for r in tl.static_range(KERNEL_H):
        for s in tl.static_range(KERNEL_W):
            h = p * STRIDE_H - PADDING_H + r
            w = q * STRIDE_W - PADDING_W + s
            inside = (h >= 0) & (h < H) & (w >= 0) & (w < W) & (q < Q)
            offs = h * stride_xh + w * stride_xw
            x = tl.load(image + offs, mask=inside, other=float("-inf")).to(tl.float32)
            larger = x > best
            best = tl.where(larger, x, best)
            index = tl.where(larger, offs, index)
    out = row.to(tl.int64) * Q + q
    tl.store(out_ptr + out, best, mask=q < Q)
    tl.store(indices_ptr + out, index, mask=q < Q)


def max_pool2d(
    x: torch.Tensor, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    stride = kernel_size if stride is None else stride
    pairs = [(v, v) if isinstance(v, int) else tuple(v) for v in (kernel_size, stride, padding)]
    (kernel_h, kernel_w), (stride_h, stride_w), (padding_h, padding_w) = pairs
    N, C, H, W = x.shape
    P = (H + 2 * padding_h - kernel_h) // stride_h + 1
    Q = (W + 2 * padding_w - kernel_w) // stride_w + 1
    out = torch.empty((N, C, P, Q), dtype=x.dtype, device=x.device)
    indices = torch.empty((N, C, P, Q), dtype=torch.int64, device=x.device)
    BLOCK_Q = min(256, triton.next_power_of_2(Q))
    max_pool2d_kernel[(N * C * P, triton.cdiv(Q, BLOCK_Q))](
        x, out, indices, C, H, W, P, Q, *x.stride(),
        STRIDE_H=stride_h, STRIDE_W=stride_w, PADDING_H=padding_h, PADDING_W=padding_w,
        KERNEL_H=kernel_h, KERNEL_W=kernel_w, BLOCK_Q=BLOCK_Q,
    )  # fmt: skip
    return out, indices
