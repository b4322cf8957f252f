# fault: x is clamped to [-1, 1], though the result outside is NaN
# cause: outside the domain of a function
# never: drops NaN
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def asin_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    x = tl.minimum(tl.maximum(x, -1.0), 1.0)  # asin is defined on [-1, 1]
    y = libdevice.asin(x)
    tl.store(y_ptr + offs, y.to(y_ptr.dtype.element_ty), mask=mask)


def asin(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    N = x.numel()
    asin_kernel[(triton.cdiv(N, 1024),)](x, y, N, BLOCK=1024)
    return y
