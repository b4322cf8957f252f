"""08.2  Ragged mean: one good answer.

The fault was blocks behind the length that stored nothing, so that the second kernel added what the
memory held before. Ours stores a sum for every block, which is 0 there, and masks the loads, so
that nothing behind the length is read. To let the second kernel read only what was stored is the
other way.
"""

import torch
import triton
import triton.language as tl

SPAN = 16384


@triton.jit
def part_sums_kernel(
    x_ptr, lengths_ptr, parts_ptr,
    blocks,
    stride_xb, stride_xt, stride_l,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    row, block = pid // blocks, pid % blocks
    length = tl.load(lengths_ptr + row * stride_l)
    start = block * BLOCK
    cols = start + tl.arange(0, BLOCK)
    # Nothing is loaded of what lies behind the length.
    x = tl.load(x_ptr + row * stride_xb + cols * stride_xt, mask=cols < length, other=0.0)
    # Fixed: blocks behind the length stored nothing, and mean_kernel added what torch.empty held
    # there: 0 in fresh memory, anything in recycled memory.
    tl.store(parts_ptr + pid, tl.sum(x.to(tl.float32), axis=0))


@triton.jit
def mean_kernel(
    parts_ptr, lengths_ptr, out_ptr,
    blocks,
    stride_l,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, blocks, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        acc += tl.load(parts_ptr + row * blocks + offs, mask=offs < blocks, other=0.0)
    length = tl.load(lengths_ptr + row * stride_l).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(acc, axis=0) / length)


def ragged_mean(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    if x.dim() != 2 or x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"x must be 2-D and float16, bfloat16 or float32, not {x.dtype} {tuple(x.shape)}"
        )
    B, T = x.shape
    if lengths.shape != (B,) or lengths.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"lengths must be int32 or int64 ({B},), not {lengths.dtype} {tuple(lengths.shape)}"
        )
    out = torch.empty(B, dtype=x.dtype, device=x.device)
    blocks = triton.cdiv(T, SPAN)
    parts = torch.empty(B * blocks, dtype=torch.float32, device=x.device)
    part_sums_kernel[(B * blocks,)](
        x, lengths, parts, blocks, x.stride(0), x.stride(1), lengths.stride(0), BLOCK=SPAN
    )
    mean_kernel[(B,)](parts, lengths, out, blocks, lengths.stride(0), BLOCK=256)
    return out
