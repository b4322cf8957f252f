"""06.3  Dropout: one good answer.

What is dropped is chosen by tl.where and not multiplied by 0, since NaN times 0 is NaN. The random
numbers belong to the number of the element, whatever the strides are. The seed is not specialized,
so that a seed of 1, or one that 16 divides, does not compile the kernel again.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def drop(x_ptrs, y_ptrs, keep, keep_share, mask):
    x = tl.load(x_ptrs, mask=mask).to(tl.float32)
    # A choice, not a product: a NaN that is dropped must be 0, and for p = 1 the quotient is inf.
    tl.store(y_ptrs, tl.where(keep, x / keep_share, 0.0), mask=mask)


# Else Triton compiles the kernel anew for a seed of 1, and for one that 16 divides.
@triton.jit(do_not_specialize=["seed"])
def dropout_kernel(
    x_ptr, y_ptr,
    N, size_1, size_2, size_3,
    stride_x0, stride_x1, stride_x2, stride_x3,
    p, keep_share, seed,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    offs = pid * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    i3 = offs % size_3
    i2 = offs // size_3 % size_2
    i1 = offs // (size_3 * size_2) % size_1
    i0 = offs // (size_3 * size_2 * size_1)
    x_ptrs = x_ptr + i0 * stride_x0 + i1 * stride_x1 + i2 * stride_x2 + i3 * stride_x3
    keep = tl.rand(seed, offs) > p
    # With a mask that may end anywhere each element is a load and a store of its own.
    if (pid + 1) * BLOCK <= N:
        drop(x_ptrs, y_ptr + offs, keep, keep_share, None)
    else:
        drop(x_ptrs, y_ptr + offs, keep, keep_share, offs < N)


def dropout(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    if x.dim() > 4 or x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            "x must be float16, bfloat16 or float32 with at most 4 dimensions, "
            f"not {x.dtype} {tuple(x.shape)}"
        )
    if not 0 <= p <= 1:
        raise ValueError(f"p must be a probability, from 0 to 1, not {p}")
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.is_contiguous():
        x = x.view(-1)
    missing = 4 - x.dim()
    sizes = (*x.shape, *[1] * missing)
    strides = (*x.stride(), *[0] * missing)
    N = y.numel()
    BLOCK = 1024
    dropout_kernel[(triton.cdiv(N, BLOCK),)](
        x, y, N, *sizes[1:], *strides, float(p), float(1 - p), seed, BLOCK=BLOCK
    )
    return y
