"""08.5  Running sum

Fix a kernel that is right in Triton's interpreter and wrong on a GPU.

    out[i] = x[0] + x[1] + ... + x[i]

Report    "In the interpreter it agrees with torch to the last bit. On the GPU the first 4096
          numbers are right, then it is off by something that changes from run to run. When I
          launch one block after the other from a Python loop, it is right."
Given     x (N,): float16, bfloat16 or float32, contiguous, of any length
Return    out (N,): a new tensor with the dtype of x, summed in float32 and rounded once, the same
          bits on every run
New here  the order of programs, which nothing guarantees: run them backwards. compute-sanitizer
          --tool racecheck and tl.debug_barrier() see no further than one program
Traffic   at most 2.1 loads and 2.1 stores per element in all, coalesced; by many programs, at
          100,000 elements at least 4
Speed     at least 0.5x the speed of torch.cumsum at 2**27 float32 elements

Run       pytest puzzles/08_debugging/test_running_sum.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any stride of x, including 0, and unaligned views
Sizes     offsets and results beyond 2**31 elements
Values    NaN and inf as in PyTorch: every sum after them has them too
Raise     ValueError that names x if it is not 1-D or has another dtype.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/08_debugging/production/test_running_sum.py
"""

import torch
import triton
import triton.language as tl

BLOCK = 4096


@triton.jit
def running_sum_kernel(x_ptr, ends_ptr, out_ptr, N, stride_x, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs * stride_x, mask=offs < N, other=0.0).to(tl.float32)
    # The running sum at the end of the block before.
    carry = tl.load(ends_ptr + pid - 1, mask=pid > 0, other=0.0)
    tl.store(ends_ptr + pid, carry + tl.sum(x, axis=0))
    tl.store(out_ptr + offs, tl.cumsum(x, axis=0) + carry, mask=offs < N)


def running_sum(x: torch.Tensor) -> torch.Tensor:
    if x.dim() != 1 or x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"x must be 1-D and float16, bfloat16 or float32, not {x.dtype} {tuple(x.shape)}"
        )
    N = x.numel()
    out = torch.empty(N, dtype=x.dtype, device=x.device)
    blocks = triton.cdiv(N, BLOCK)
    ends = torch.empty(blocks, dtype=torch.float32, device=x.device)
    running_sum_kernel[(blocks,)](x, ends, out, N, x.stride(0), BLOCK=BLOCK, num_warps=8)
    return out
