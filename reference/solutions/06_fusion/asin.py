"""06.5  Arc sine: one good answer.

Whole blocks go without a mask, because one that may end anywhere makes each element a load of its
own; only the last program has one. Strides of up to four dimensions are arguments, and contiguous
tensors are flattened first, for which the compiler drops the arithmetic on indices.
"""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def asin_block(x_ptrs, y_ptrs, mask):
    x = tl.load(x_ptrs, mask=mask).to(tl.float32)
    tl.store(y_ptrs, libdevice.asin(x), mask=mask)


@triton.jit
def asin_kernel(
    x_ptr, y_ptr,
    N, size_1, size_2, size_3,
    stride_x0, stride_x1, stride_x2, stride_x3,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    offs = pid * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    i3 = offs % size_3
    i2 = offs // size_3 % size_2
    i1 = offs // (size_3 * size_2) % size_1
    i0 = offs // (size_3 * size_2 * size_1)
    x_ptrs = x_ptr + i0 * stride_x0 + i1 * stride_x1 + i2 * stride_x2 + i3 * stride_x3
    # Whole blocks have no mask: with one that may end anywhere, each element is a load of its own.
    if (pid + 1) * BLOCK <= N:
        asin_block(x_ptrs, y_ptr + offs, None)
    else:
        asin_block(x_ptrs, y_ptr + offs, offs < N)


def asin(x: torch.Tensor) -> torch.Tensor:
    if x.dim() > 4 or x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            "x must be float16, bfloat16 or float32 with at most 4 dimensions, "
            f"not {x.dtype} {tuple(x.shape)}"
        )
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.is_contiguous():
        x = x.view(-1)
    missing = 4 - x.dim()
    sizes = (*x.shape, *[1] * missing)
    strides = (*x.stride(), *[0] * missing)
    N = y.numel()
    BLOCK = 1024
    asin_kernel[(triton.cdiv(N, BLOCK),)](x, y, N, *sizes[1:], *strides, BLOCK=BLOCK)
    return y
