"""16.1  Delta: one good answer.

A program has 4096 elements of each input whatever D is: of 16 bits, two loads of 16 bytes for each
of its 256 threads. Both tensors are read in place, whatever their strides are, and products are
added in float32.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def attention_delta_kernel(
    out_ptr, dout_ptr, delta_ptr,
    H, S,
    stride_ob, stride_oh, stride_os, stride_od,
    stride_gb, stride_gh, stride_gs, stride_gd,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(S, BLOCK_M)
    tile, head = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    b, h = head // H, head % H
    offs_m = tile.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D).to(tl.int64)
    mask_m = offs_m < S
    out_ptrs = out_ptr + b * stride_ob + h * stride_oh
    out_ptrs += offs_m[:, None] * stride_os + offs_d[None, :] * stride_od
    dout_ptrs = dout_ptr + b * stride_gb + h * stride_gh
    dout_ptrs += offs_m[:, None] * stride_gs + offs_d[None, :] * stride_gd
    out = tl.load(out_ptrs, mask=mask_m[:, None], other=0.0).to(tl.float32)
    dout = tl.load(dout_ptrs, mask=mask_m[:, None], other=0.0).to(tl.float32)
    tl.store(delta_ptr + head * S + offs_m, tl.sum(out * dout, axis=1), mask=mask_m)


def attention_delta(out: torch.Tensor, dout: torch.Tensor) -> torch.Tensor:
    if out.dim() != 4 or out.shape[3] not in (16, 32, 64, 128):
        raise ValueError(
            f"out must be (B, H, S, D) with D 16, 32, 64 or 128, not {tuple(out.shape)}"
        )
    if out.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"out must be float16 or bfloat16, not {out.dtype}")
    if dout.shape != out.shape or dout.dtype != out.dtype:
        raise ValueError(
            f"dout must be {out.dtype} {tuple(out.shape)}, not {dout.dtype} {tuple(dout.shape)}"
        )
    B, H, S, D = out.shape
    delta = torch.empty(B, H, S, dtype=torch.float32, device=out.device)
    # 4096 elements of each input: two loads of 16 bytes a thread and input with 8 warps.
    BLOCK_M = min(4096 // D, triton.next_power_of_2(S))
    attention_delta_kernel[(triton.cdiv(S, BLOCK_M) * B * H,)](
        out, dout, delta, H, S, *out.stride(), *dout.stride(),
        D=D, BLOCK_M=BLOCK_M, num_warps=8,
    )  # fmt: skip
    return delta
