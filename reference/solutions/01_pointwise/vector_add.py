"""01.4  Vector addition: one good answer.

The number of the program has 64 bits before it is multiplied by BLOCK, so that vectors of more than
2**31 elements are added too. Each input has a stride, so that views are read in place. A stride of
1 is a constant of the compiled kernel and costs nothing.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def vector_add_kernel(
    x_ptr, y_ptr, z_ptr,
    N,
    stride_x, stride_y,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    offs = pid * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    mask = offs < N
    x = tl.load(x_ptr + offs * stride_x, mask=mask)
    y = tl.load(y_ptr + offs * stride_y, mask=mask)
    tl.store(z_ptr + offs, x + y, mask=mask)


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if x.dim() != 1:
        raise ValueError(f"x must be 1-D, not {tuple(x.shape)}")
    if y.shape != x.shape or y.dtype != x.dtype:
        raise ValueError(
            f"y must be {x.dtype} {tuple(x.shape)} like x, not {y.dtype} {tuple(y.shape)}"
        )
    N = x.numel()
    z = torch.empty(N, dtype=x.dtype, device=x.device)
    BLOCK = 1024
    grid = (triton.cdiv(N, BLOCK),)
    vector_add_kernel[grid](x, y, z, N, x.stride(0), y.stride(0), BLOCK=BLOCK)
    return z
