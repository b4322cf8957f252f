"""10.1  Causal 1-D convolution: one good answer.

A thread holds 8 neighbouring times, and the taps are columns of two tiles in registers: x, and x 8
times earlier. Both loads are aligned where x is, which one load for each tap would not be. Where
channels are contiguous the tile is 64 x 64, so that loads and stores both run along the memory.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def columns(x):
    """The 8 columns of x (..., 8). Where a thread holds whole rows, no number moves."""
    even, odd = tl.split(tl.reshape(x, (x.shape[0], x.shape[1], 2, 2, 2)))
    x04, x26 = tl.split(even)
    x15, x37 = tl.split(odd)
    x0, x4 = tl.split(x04)
    x1, x5 = tl.split(x15)
    x2, x6 = tl.split(x26)
    x3, x7 = tl.split(x37)
    return x0, x1, x2, x3, x4, x5, x6, x7


@triton.jit
def from_columns(x):
    """The inverse of `columns`."""
    even = tl.join(tl.join(x[0], x[4]), tl.join(x[2], x[6]))
    odd = tl.join(tl.join(x[1], x[5]), tl.join(x[3], x[7]))
    return tl.reshape(tl.join(even, odd), (x[0].shape[0], x[0].shape[1], 8))


@triton.jit
def causal_conv1d_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr,
    B, D, L,
    stride_xb, stride_xd, stride_xl,
    stride_wd, stride_ww, stride_bias,
    W: tl.constexpr, ACTIVATION: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_L: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_d, tiles_l = tl.cdiv(D, BLOCK_D), tl.cdiv(L, BLOCK_L)
    batch = (pid // tiles_l // tiles_d).to(tl.int64)
    offs_d = (pid // tiles_l % tiles_d).to(tl.int64) * BLOCK_D + tl.arange(0, BLOCK_D)
    rows = tl.arange(0, BLOCK_L // 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
    offs_l = (pid % tiles_l).to(tl.int64) * BLOCK_L + rows[None, :, :]  # [1, BLOCK_L / 8, 8]
    mask_d = offs_d < D

    x_ptrs = x_ptr + batch * stride_xb + offs_d[:, None, None] * stride_xd
    # Both loads are aligned where x is; one for each tap would not be.
    mask = mask_d[:, None, None] & (offs_l < L)
    x = columns(tl.load(x_ptrs + offs_l * stride_xl, mask=mask, other=0.0).to(tl.float32))
    if W > 1:
        past = offs_l - 8
        mask = mask_d[:, None, None] & (past >= 0) & (past < L)
        before = tl.load(x_ptrs + past * stride_xl, mask=mask, other=0.0)
        x = columns(before.to(tl.float32)) + x

    taps = ()
    for w in tl.static_range(W):
        weight_ptrs = weight_ptr + offs_d * stride_wd + tl.cast(stride_ww, tl.int64) * w
        taps += (tl.load(weight_ptrs, mask=mask_d, other=0.0).to(tl.float32)[:, None],)
    bias = tl.load(bias_ptr + offs_d * stride_bias, mask=mask_d, other=0.0).to(tl.float32)
    out = ()
    for column in tl.static_range(8):
        acc = tl.zeros((BLOCK_D, BLOCK_L // 8), tl.float32) + bias[:, None]
        for w in tl.static_range(W):
            acc += taps[w] * x[len(x) - 8 + column - (W - 1) + w]
        if ACTIVATION == "silu":
            acc = acc * tl.sigmoid(acc)
        out += (acc,)
    out_ptrs = out_ptr + (batch * D + offs_d[:, None, None]) * L + offs_l
    tl.store(out_ptrs, from_columns(out), mask=mask_d[:, None, None] & (offs_l < L))


def causal_conv1d(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, activation: str | None = None
) -> torch.Tensor:
    if x.dim() != 3 or x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"x must be 3-D and float16, bfloat16 or float32, not {x.dtype} {tuple(x.shape)}"
        )
    B, D, L = x.shape
    W = weight.shape[-1] if weight.dim() == 2 else 0
    if not 1 <= W <= 8 or weight.shape[0] != D or weight.dtype != x.dtype:
        raise ValueError(
            f"weight must be {x.dtype} ({D}, 1 to 8), not {weight.dtype} {tuple(weight.shape)}"
        )
    if bias.shape != (D,) or bias.dtype != x.dtype:
        raise ValueError(f"bias must be {x.dtype} {(D,)}, not {bias.dtype} {tuple(bias.shape)}")
    if activation not in (None, "silu"):
        raise ValueError(f'activation must be None or "silu", not {activation!r}')
    out = torch.empty((B, D, L), dtype=x.dtype, device=x.device)
    if x.stride(1) < x.stride(2):
        # Neighbours in memory are channels, in out they are times: a tile that is wide both ways.
        BLOCK_D, BLOCK_L = 64, 64
    else:
        BLOCK_L = max(8, min(triton.next_power_of_2(L), 1024))
        BLOCK_D = 1024 // BLOCK_L
    grid = (B * triton.cdiv(D, BLOCK_D) * triton.cdiv(L, BLOCK_L),)
    causal_conv1d_kernel[grid](
        x, weight, bias, out, B, D, L, *x.stride(), *weight.stride(), bias.stride(0),
        W=W, ACTIVATION=activation, BLOCK_D=BLOCK_D, BLOCK_L=BLOCK_L,
        num_warps=2 if BLOCK_D * BLOCK_L <= 1024 else 8,
    )  # fmt: skip
    return out
