"""08.2  Ragged mean

Fix a kernel that is right in a new process and wrong in a server.

    out[b] = mean(x[b, :lengths[b]])

Report    "Right in every test I wrote. In the server the first requests are right too; after some
          minutes short rows come out wrong or as NaN, long rows never. The same batch alone in a
          new process is right again."
Given     x (B, T): float16, bfloat16 or float32, contiguous; lengths (B,): int32 or int64, each
          from 0 to T (not checked). Past its length a row may hold anything, even NaN
Return    out (B,): a new tensor with the dtype of x, summed in float32 and rounded once, the same
          bits on every run; a row of length 0 gives NaN, and so does NaN within the length
New here  torch.empty is whatever was there before: fill it with NaN, and with a number, and see who
          reads it
Traffic   each element within the lengths loaded once, none past them, coalesced; each result stored
          once; at most two launches
Speed     at least 6x PyTorch's speed at 256 x 2**20 bfloat16 elements, with lengths of all sizes

Run       pytest puzzles/08_debugging/test_ragged_mean.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides of x and lengths, including 0, and unaligned views
Sizes     no rows, no columns, more than 65535 rows, offsets beyond 2**31 elements
Values    inf within the length as in PyTorch
Raise     ValueError that names x if it is not 2-D or has another dtype, and lengths if it is not
          (B,) or has another dtype.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/08_debugging/production/test_ragged_mean.py
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
    tl.store(parts_ptr + pid, tl.sum(x.to(tl.float32), axis=0), mask=start < length)


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
