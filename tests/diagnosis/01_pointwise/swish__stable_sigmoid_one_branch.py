# fault: 1 / (1 + exp(-|x|)) for negative x too
# cause: sigmoid is that of .x.
# never: added twice
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
    x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    # exp of a negative number cannot overflow
    e = tl.exp(-tl.abs(x))
    sigmoid = 1.0 / (1.0 + e)
    y = x * sigmoid
    tl.store(y_ptr + offs, y.to(y_ptr.dtype.element_ty), mask=mask)


def swish(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    N = x.numel()
    BLOCK = 1024
    swish_kernel[(triton.cdiv(N, BLOCK),)](x, y, N, BLOCK=BLOCK)
    return y
