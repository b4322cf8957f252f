# fault: the sigmoid is written as e / (1 + e) with e = exp(x): NaN from x = 89 on
# cause: exp is infinite in float32 above 88
# never: row's largest
import torch
import triton
import triton.language as tl


@triton.jit
def swish_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    e = tl.exp(x)
    tl.store(y_ptr + offs, x * (e / (1.0 + e)), mask=mask)


def swish(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    N = x.numel()
    BLOCK = 1024
    swish_kernel[(triton.cdiv(N, BLOCK),)](x, y, N, BLOCK=BLOCK)
    return y
