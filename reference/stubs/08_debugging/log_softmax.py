"""08.8  Log softmax

Fix a kernel that is right and slow, on long rows only.

    y[m, n] = x[m, n] - max(x[m]) - log(sum_k exp(x[m, k] - max(x[m])))

Report    "Up to 2048 columns it is as fast as the vendor's. At 16384 it is slower than five PyTorch
          calls. I kept one warp, so that nobody waits at a barrier. Nsight Compute says that 'local
          memory' is four times the global traffic, but I have no local arrays."
Given     x (M, N): float16, bfloat16 or float32, contiguous, 1 <= N <= 16384
Return    y (M, N): a new tensor with the dtype of x, computed in float32 and rounded once
New here  registers, spills and shared memory: compiled.n_regs, compiled.n_spills and
          compiled.metadata.shared. How long it takes to compile is a symptom too
Traffic   each element loaded once and stored once, coalesced, one launch; a thread spills at most
          32 bytes on sm_80 and sm_90
Speed     at least 3x the speed of PyTorch at 8192 x 16384 float32 elements

Run       pytest puzzles/08_debugging/test_log_softmax.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0, and unaligned views
Sizes     no rows, more than 65535 rows, offsets and results beyond 2**31 elements
Values    NaN, inf and -inf as in PyTorch
Raise     ValueError that names x if it is not 2-D, has another dtype, or N is not 1 to 16384.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/08_debugging/production/test_log_softmax.py
"""

import torch
import triton
import triton.language as tl

LONGEST = 2**14


@triton.jit
def log_softmax_kernel(
    x_ptr, y_ptr,
    N,
    stride_xm, stride_xn,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    mask = cols < N
    x_ptrs = x_ptr + row * stride_xm + cols * stride_xn
    # exp(-inf) is 0, so the masked lanes change neither the maximum nor the sum.
    x = tl.load(x_ptrs, mask=mask, other=float("-inf")).to(tl.float32)
    shifted = x - tl.max(x, axis=0)
    y = shifted - tl.log(tl.sum(tl.exp(shifted), axis=0))
    tl.store(y_ptr + row * N + cols, y, mask=mask)


def log_softmax(x: torch.Tensor) -> torch.Tensor:
    if (
        x.dim() != 2
        or x.dtype not in (torch.float16, torch.bfloat16, torch.float32)
        or not 1 <= x.shape[1] <= LONGEST
    ):
        raise ValueError(
            "x must be 2-D and float16, bfloat16 or float32 with rows of 1 to "
            f"{LONGEST} elements, not {x.dtype} {tuple(x.shape)}"
        )
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK = triton.next_power_of_2(N)
    # One warp: with several, each would wait for the others at a barrier, twice a row.
    num_warps = 1
    log_softmax_kernel[(M,)](x, y, N, *x.stride(), BLOCK=BLOCK, num_warps=num_warps)
    return y
