"""01.3  ReLU, a kernel without its launcher: one good answer.

The number of the program has 64 bits before it is multiplied by BLOCK, so that vectors of more than
2**31 elements fit. The launcher refuses x if it has another stride than 1 or more dimensions than
one, since the kernel would read it at wrong addresses. NaN is not below 0, so tl.where keeps it.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    offs = pid * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    mask = offs < N
    x = tl.load(x_ptr + offs, mask=mask)
    tl.store(y_ptr + offs, tl.where(x < 0, 0, x), mask=mask)


def relu(x: torch.Tensor) -> torch.Tensor:
    if x.dim() != 1 or not x.is_contiguous():
        raise ValueError(f"x must be 1-D and contiguous, not {tuple(x.shape)} {x.stride()}")
    y = torch.empty_like(x)
    N = x.numel()
    BLOCK = 1024
    grid = (triton.cdiv(N, BLOCK),)
    relu_kernel[grid](x, y, N, BLOCK=BLOCK)
    return y
