# fault: the imaginary parts of x are loaded without a mask
# cause: mask with offs < N
import torch
import triton
import triton.language as tl


@triton.jit
def complex_multiply_kernel(x_ptr, y_ptr, z_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    a = tl.load(x_ptr + 2 * offs, mask=mask)
    b = tl.load(x_ptr + 2 * offs + 1)
    c = tl.load(y_ptr + 2 * offs, mask=mask)
    d = tl.load(y_ptr + 2 * offs + 1, mask=mask)
    tl.store(z_ptr + 2 * offs, a * c - b * d, mask=mask)
    tl.store(z_ptr + 2 * offs + 1, a * d + b * c, mask=mask)


def complex_multiply(x, y):
    z = torch.empty_like(x)
    N = x.numel()
    complex_multiply_kernel[(triton.cdiv(N, 512),)](
        torch.view_as_real(x), torch.view_as_real(y), torch.view_as_real(z), N, BLOCK=512
    )
    return z
