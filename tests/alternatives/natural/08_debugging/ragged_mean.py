"""A grid of two axes, and a second launch that reads only the parts that were stored."""

import torch
import triton
import triton.language as tl


@triton.jit
def sums_kernel(x_ptr, lengths_ptr, parts_ptr, T, BLOCK: tl.constexpr):
    row, block = tl.program_id(0), tl.program_id(1)
    length = tl.load(lengths_ptr + row)
    if block * BLOCK < length:
        cols = block * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * T + cols, mask=cols < length, other=0.0).to(tl.float32)
        tl.store(parts_ptr + row * tl.num_programs(1) + block, tl.sum(x))


@triton.jit
def mean_kernel(parts_ptr, lengths_ptr, out_ptr, blocks, BLOCK: tl.constexpr, MANY: tl.constexpr):
    row = tl.program_id(0)
    length = tl.load(lengths_ptr + row)
    offs = tl.arange(0, MANY)
    parts = tl.load(parts_ptr + row * blocks + offs, mask=offs < tl.cdiv(length, BLOCK), other=0.0)
    tl.store(out_ptr + row, tl.sum(parts) / length)


def ragged_mean(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    B, T = x.shape
    blocks = triton.cdiv(T, 8192)
    parts = torch.empty((B, blocks), dtype=torch.float32, device=x.device)
    out = torch.empty(B, dtype=x.dtype, device=x.device)
    sums_kernel[(B, blocks)](x, lengths, parts, T, BLOCK=8192, num_warps=8)
    many = triton.next_power_of_2(blocks)
    mean_kernel[(B,)](parts, lengths, out, blocks, BLOCK=8192, MANY=many)
    return out
