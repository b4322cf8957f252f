"""08.1  Entropy

Fix a kernel that returns NaN for good input.

    p = softmax(x[m]),  out[m] = -sum_n p[n] * log(p[n]), where 0 * log(0) counts as 0

Report    "The loss was fine for 9000 steps, then NaN for good. It is this regularizer: for one
          row of the batch it returns NaN, although the softmax of that row has no NaN in it.
          Clipping the logits to +-80 makes it go away. With classes masked by -inf it happens at
          once."
Given     x (M, N): float16, bfloat16 or float32, contiguous, 1 <= N <= 65536; logits may be
          -inf, but not a whole row
Return    out (M,): a new tensor with the dtype of x, in nats, summed in float32 and rounded once
New here  print(p) and breakpoint() inside a kernel, under TRITON_INTERPRET=1: find the first line
          that makes a NaN, not the last one that passes it on
Traffic   each element loaded once, each result stored once, coalesced, one launch
Speed     at least 8x the speed of PyTorch at 16384 x 4096 bfloat16 elements

Run       pytest puzzles/08_debugging/test_entropy.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0, and unaligned views
Sizes     no rows at all, more than 65535 rows, offsets beyond 2**31 elements
Values    a row with NaN or inf, or of -inf only, gives NaN
Raise     ValueError that names x if it is not 2-D, has another dtype, or N is not 1 to 65536.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/08_debugging/production/test_entropy.py
"""

import torch
import triton
import triton.language as tl

TILE = 2048
LONGEST = 2**16


@triton.jit
def entropy_kernel(
    x_ptr, out_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, BLOCK_N).to(tl.int64)[None, :]
    mask = (rows[:, None] < M) & (cols < N)
    x_ptrs = x_ptr + rows[:, None] * stride_xm + cols * stride_xn
    # exp(-inf) is 0, so the masked lanes change neither the maximum nor the sum.
    x = tl.load(x_ptrs, mask=mask, other=float("-inf")).to(tl.float32)
    exponentials = tl.exp(x - tl.max(x, axis=1, keep_dims=True))
    p = exponentials / tl.sum(exponentials, axis=1, keep_dims=True)  # [BLOCK_M, BLOCK_N]
    terms = tl.where(mask, -p * tl.log(p), 0.0)
    tl.store(out_ptr + rows, tl.sum(terms, axis=1), mask=rows < M)


def softmax_entropy(x: torch.Tensor) -> torch.Tensor:
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
    out = torch.empty(M, dtype=x.dtype, device=x.device)
    BLOCK_N = triton.next_power_of_2(N)
    BLOCK_M = min(triton.next_power_of_2(max(M, 1)), max(1, TILE // BLOCK_N))
    entropy_kernel[(triton.cdiv(M, BLOCK_M),)](
        x, out, M, N, x.stride(0), x.stride(1),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=min(max(BLOCK_N // 1024, 2), 32),
    )  # fmt: skip
    return out
