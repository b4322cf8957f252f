# fault: the exponent is cut off at 10, so that y is x / 22027 for x below -10
# cause: tl\.minimum\(-x, 10\.0\): with -x in its place
import torch
import triton
import triton.language as tl


@triton.jit
def swish_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    e = tl.exp(tl.minimum(-x, 10.0))
    tl.store(y_ptr + offs, x / (1.0 + e), mask=mask)


def swish(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    N, BLOCK = x.numel(), 1024
    grid = (triton.cdiv(N, BLOCK),)
    swish_kernel[grid](x, y, N, BLOCK=BLOCK)
    return y
