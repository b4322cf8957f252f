"""06.4  Dropout, backward: one good answer.

The mask is made again from the number of the element, and not from its place in memory, as dy may
lie there otherwise than x did. What was dropped is chosen by tl.where, since NaN times 0 is NaN.
The seed is not specialized, so that no seed compiles the kernel again.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def drop(dy_ptrs, dx_ptrs, keep, keep_share, mask):
    dy = tl.load(dy_ptrs, mask=mask).to(tl.float32)
    tl.store(dx_ptrs, tl.where(keep, dy / keep_share, 0.0), mask=mask)


# Else Triton compiles the kernel anew for a seed of 1, and for one that 16 divides.
@triton.jit(do_not_specialize=["seed"])
def dropout_backward_kernel(
    dy_ptr, dx_ptr,
    N, size_1, size_2, size_3,
    stride_dy0, stride_dy1, stride_dy2, stride_dy3,
    p, keep_share, seed,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    offs = pid * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    i3 = offs % size_3
    i2 = offs // size_3 % size_2
    i1 = offs // (size_3 * size_2) % size_1
    i0 = offs // (size_3 * size_2 * size_1)
    dy_ptrs = dy_ptr + i0 * stride_dy0 + i1 * stride_dy1 + i2 * stride_dy2 + i3 * stride_dy3
    # The number of the element, not its place in memory: dy may lie there otherwise than x did.
    keep = tl.rand(seed, offs) > p
    # With a mask that may end anywhere each element is a load and a store of its own.
    if (pid + 1) * BLOCK <= N:
        drop(dy_ptrs, dx_ptr + offs, keep, keep_share, None)
    else:
        drop(dy_ptrs, dx_ptr + offs, keep, keep_share, offs < N)


def dropout_backward(dy: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    if dy.dim() > 4 or dy.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            "dy must be float16, bfloat16 or float32 with at most 4 dimensions, "
            f"not {dy.dtype} {tuple(dy.shape)}"
        )
    if not 0 <= p <= 1:
        raise ValueError(f"p must be a probability, from 0 to 1, not {p}")
    dx = torch.empty(dy.shape, dtype=dy.dtype, device=dy.device)
    if dy.is_contiguous():
        dy = dy.view(-1)
    missing = 4 - dy.dim()
    sizes = (*dy.shape, *[1] * missing)
    strides = (*dy.stride(), *[0] * missing)
    N = dx.numel()
    BLOCK = 1024
    dropout_backward_kernel[(triton.cdiv(N, BLOCK),)](
        dy, dx, N, *sizes[1:], *strides, float(p), float(1 - p), seed, BLOCK=BLOCK
    )
    return dx
