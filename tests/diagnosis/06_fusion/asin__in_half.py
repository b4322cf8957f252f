# fault: libdevice.asin gets x as it was loaded
# cause: float32
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 512}, num_warps=4),
        triton.Config({"BLOCK": 1024}, num_warps=4),
        triton.Config({"BLOCK": 4096}, num_warps=8),
    ],
    key=["N"],
)
@triton.jit
def asin_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    x = tl.load(x_ptr + offs, mask=mask)
    tl.store(y_ptr + offs, libdevice.asin(x), mask=mask)


def asin(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    N = x.numel()
    asin_kernel[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)](x, y, N)
    return y
