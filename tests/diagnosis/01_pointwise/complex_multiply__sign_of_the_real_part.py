# fault: ac + bd in place of ac - bd
# cause: second product of the real part has the wrong sign
import torch
import triton
import triton.language as tl


@triton.jit
def complex_multiply_kernel(x_ptr, y_ptr, z_ptr, n_floats, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * 2 * BLOCK + tl.arange(0, 2 * BLOCK)
    mask = offs < n_floats
    x = tl.load(x_ptr + offs, mask=mask, other=0.0)
    y = tl.load(y_ptr + offs, mask=mask, other=0.0)
    a, b = tl.split(tl.reshape(x, (BLOCK, 2)))
    c, d = tl.split(tl.reshape(y, (BLOCK, 2)))
    z = tl.interleave(a * c + b * d, a * d + b * c)
    tl.store(z_ptr + offs, z, mask=mask)


def complex_multiply(x, y):
    z = torch.empty_like(x)
    N = x.numel()
    BLOCK = 512
    complex_multiply_kernel[(triton.cdiv(N, BLOCK),)](
        torch.view_as_real(x), torch.view_as_real(y), torch.view_as_real(z), 2 * N, BLOCK=BLOCK
    )
    return z
