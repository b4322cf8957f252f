"""01.1  Copy: the worked example

Copy a vector, one block of elements in each program.

    y[i] = x[i]          PyTorch: x.clone()

Given     x (N,): float16, bfloat16 or float32, contiguous, N >= 1
Return    y (N,): a new tensor with the dtype of x
New here  @triton.jit, tl.program_id, tl.arange, tl.load, tl.store, a mask, a grid
Traffic   each element loaded once and stored once, neighbouring lanes on neighbouring
          elements, one launch
Speed     at least 0.3x the speed of x.clone() at 64 Mi float32 elements

Run       pytest puzzles/01_pointwise/test_vector_copy.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    views that are not aligned to 16 bytes
Sizes     N = 0; results beyond 2**31 elements
Dtypes    any dtype but complex
Values    copied bit for bit, NaN and inf too
Raise     ValueError that names x if it is not 1-D or not contiguous.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/01_pointwise/production/test_vector_copy.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def vector_copy_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # Program 0 copies the first BLOCK elements, program 1 the next, and so on. The program id has
    # 32 bits: beyond 2**31 elements its product with BLOCK would overflow.
    pid = tl.program_id(0).to(tl.int64)
    offs = pid * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    if (pid + 1) * BLOCK <= N:
        # A whole block needs no mask, and without one a load takes 16 bytes at once whatever N is.
        tl.store(y_ptr + offs, tl.load(x_ptr + offs))
    else:
        # N need not be a multiple of BLOCK: the last program must not touch what lies past the end.
        mask = offs < N
        x = tl.load(x_ptr + offs, mask=mask)
        tl.store(y_ptr + offs, x, mask=mask)


def vector_copy(x: torch.Tensor) -> torch.Tensor:
    if x.dim() != 1 or not x.is_contiguous():
        raise ValueError(f"x must be 1-D and contiguous, not {tuple(x.shape)} {x.stride()}")
    y = torch.empty_like(x)
    N = x.numel()
    BLOCK = 1024
    vector_copy_kernel[(triton.cdiv(N, BLOCK),)](x, y, N, BLOCK=BLOCK)
    return y
