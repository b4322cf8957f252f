"""10.2  Max pooling: one good answer.

Which taps of a window lie inside x is computed once, as bounds of r and s. A program goes down
through the rows, so that what depends on columns alone is computed once, and up to 16 taps are
loaded before the first is compared. It keeps the number of the best tap and computes the index
after the loop. Stride and padding are constants of the kernel, like the window: the compiler knows
then which addresses lie side by side.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

Pair = int | tuple[int, int]

# So many taps are loaded before the first of them is compared.
UNROLL = 16


@triton.jit
def max_pool2d_kernel(
    x_ptr, out_ptr, indices_ptr,
    C, H, W, P, Q,
    stride_xn, stride_xc, stride_xh, stride_xw,
    STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr,
    PADDING_H: tl.constexpr, PADDING_W: tl.constexpr,
    KERNEL_H: tl.constexpr, KERNEL_W: tl.constexpr, UNROLL: tl.constexpr,
    BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_Q: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_c, tiles_p, tiles_q = tl.cdiv(C, BLOCK_C), tl.cdiv(P, BLOCK_P), tl.cdiv(Q, BLOCK_Q)
    pid_q, pid_p = pid % tiles_q, pid // tiles_q % tiles_p
    plane = pid // tiles_q // tiles_p
    batch = (plane // tiles_c).to(tl.int64)
    channel = (plane % tiles_c).to(tl.int64) * BLOCK_C + tl.arange(0, BLOCK_C)[:, None]
    q = pid_q.to(tl.int64) * BLOCK_Q + tl.arange(0, BLOCK_Q)[None, :]
    left = q * STRIDE_W - PADDING_W
    mask = (channel < C) & (q < Q)  # [BLOCK_C, BLOCK_Q]
    # The taps of a window that lie in x are first <= r, s < end.
    first_s = tl.maximum(-left, 0).to(tl.int32)
    end_s = tl.minimum(W - left, KERNEL_W).to(tl.int32)
    x_ptrs = x_ptr + batch * stride_xn + channel * stride_xc + left * stride_xw
    offs = (batch * C + channel) * P * Q + q

    # Row by row: what depends on columns alone is computed once.
    first_p = pid_p.to(tl.int64) * BLOCK_P
    for p in range(first_p, tl.minimum(first_p + BLOCK_P, P)):
        top = p * STRIDE_H - PADDING_H
        first_r = tl.maximum(-top, 0).to(tl.int32)
        end_r = tl.minimum(H - top, KERNEL_H).to(tl.int32)
        best = tl.full((BLOCK_C, BLOCK_Q), float("-inf"), tl.float32)
        best_tap = tl.zeros((BLOCK_C, BLOCK_Q), tl.int32) + first_r * KERNEL_W + first_s
        for tap in tl.range(0, KERNEL_H * KERNEL_W, loop_unroll_factor=UNROLL):
            r, s = tap // KERNEL_W, tap % KERNEL_W
            inside = (r >= first_r) & (r < end_r) & (s >= first_s) & (s < end_s)
            step = (top + r) * stride_xh + s * tl.cast(stride_xw, tl.int64)
            x = tl.load(x_ptrs + step, mask=mask & inside, other=float("-inf")).to(tl.float32)
            # NaN is better than anything, and the last one counts.
            better = (x > best) | (x != x)
            best = tl.where(better, x, best)
            best_tap = tl.where(better, tap, best_tap)
        index = (top + best_tap // KERNEL_W) * W + left + best_tap % KERNEL_W
        tl.store(out_ptr + offs + p * Q, best, mask=mask)
        tl.store(indices_ptr + offs + p * Q, index, mask=mask)


def pair(name: str, value: Pair, least: int) -> tuple[int, int]:
    """(height, width). Raises ValueError unless both are ints of at least this much."""
    both = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(both) != 2 or not all(isinstance(it, int) and it >= least for it in both):
        raise ValueError(f"{name} must be an int or two of at least {least}, not {value}")
    return both


def max_pool2d(
    x: torch.Tensor, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    if x.dim() != 4 or x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"x must be 4-D and float16, bfloat16 or float32, not {x.dtype} {tuple(x.shape)}"
        )
    N, C, H, W = x.shape
    kernel_h, kernel_w = pair("kernel_size", kernel_size, 1)
    stride_h, stride_w = pair("stride", kernel_size if stride is None else stride, 1)
    padding_h, padding_w = pair("padding", padding, 0)
    if 2 * padding_h > kernel_h or 2 * padding_w > kernel_w:
        raise ValueError(f"padding must be at most half of {kernel_size}, not {padding}")
    if kernel_h > H + 2 * padding_h or kernel_w > W + 2 * padding_w:
        raise ValueError(f"kernel_size must fit in {(H, W)} with its padding, not {kernel_size}")
    P = (H + 2 * padding_h - kernel_h) // stride_h + 1
    Q = (W + 2 * padding_w - kernel_w) // stride_w + 1
    out = torch.empty((N, C, P, Q), dtype=x.dtype, device=x.device)
    indices = torch.empty((N, C, P, Q), dtype=torch.int64, device=x.device)
    BLOCK_Q = min(triton.next_power_of_2(Q), 64)
    if x.stride(1) < x.stride(3):
        # Neighbours in memory are channels, in the results they are pixels: a tile wide both ways.
        BLOCK_C, BLOCK_Q, BLOCK_P, num_warps = 32, min(BLOCK_Q, 32), 4, 4
    else:
        # A window for each of 64 lanes: with several, the loads of a warp lie further apart.
        BLOCK_C, BLOCK_P, num_warps = 64 // BLOCK_Q, 16 // x.element_size(), 2
    grid = (N * triton.cdiv(C, BLOCK_C) * triton.cdiv(P, BLOCK_P) * triton.cdiv(Q, BLOCK_Q),)
    max_pool2d_kernel[grid](
        x, out, indices, C, H, W, P, Q, *x.stride(),
        STRIDE_H=stride_h, STRIDE_W=stride_w, PADDING_H=padding_h, PADDING_W=padding_w,
        KERNEL_H=kernel_h, KERNEL_W=kernel_w, UNROLL=min(kernel_h * kernel_w, UNROLL),
        BLOCK_C=BLOCK_C, BLOCK_P=BLOCK_P, BLOCK_Q=BLOCK_Q, num_warps=num_warps,
    )  # fmt: skip
    return out, indices
