# fault: the mask compares offsets of floats with the number of complex numbers
# cause: pairs < 2 \* N in its place
# never: the mask of the store leaves

import torch
import triton
import triton.language as tl


@triton.jit
def complex_multiply_kernel(
    x_ptr, y_ptr, z_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    # a tile of pairs: column 0 is the real part, column 1 the imaginary one
    pairs = offs[:, None] * 2 + tl.arange(0, 2)[None, :]
    mask = pairs < N
    x = tl.load(x_ptr + pairs, mask=mask, other=0.0)
    y = tl.load(y_ptr + pairs, mask=mask, other=0.0)
    a, b = tl.split(x)
    c, d = tl.split(y)
    z = tl.join(a * c - b * d, a * d + b * c)
    tl.store(z_ptr + pairs, z, mask=mask)


def complex_multiply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x)
    N = x.numel()
    BLOCK = 1024
    grid = (triton.cdiv(N, BLOCK),)
    complex_multiply_kernel[grid](
        torch.view_as_real(x), torch.view_as_real(y), torch.view_as_real(z), N, BLOCK=BLOCK
    )
    return z
