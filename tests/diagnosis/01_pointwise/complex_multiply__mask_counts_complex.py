# fault: the mask compares offsets of floats with the number of complex numbers
# cause: offs < N: with offs < 2 \* N in its place
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
    # BLOCK complex numbers are 2 * BLOCK floats, real and imaginary part side by side
    offs = pid * 2 * BLOCK + tl.arange(0, 2 * BLOCK)
    mask = offs < N
    x = tl.load(x_ptr + offs, mask=mask, other=0.0)
    y = tl.load(y_ptr + offs, mask=mask, other=0.0)
    a, b = tl.split(tl.reshape(x, (BLOCK, 2)))
    c, d = tl.split(tl.reshape(y, (BLOCK, 2)))
    z = tl.join(a * c - b * d, a * d + b * c)
    tl.store(z_ptr + offs, tl.reshape(z, (2 * BLOCK,)), mask=mask)


def complex_multiply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x)
    N = x.numel()
    BLOCK = 512
    grid = (triton.cdiv(N, BLOCK),)
    complex_multiply_kernel[grid](
        torch.view_as_real(x), torch.view_as_real(y), torch.view_as_real(z), N, BLOCK=BLOCK
    )
    return z
