# fault: the real part overwrites a before the imaginary part is computed from it
# cause: was overwritten by the first
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
    offs = pid * BLOCK + tl.arange(0, BLOCK)  # complex numbers
    pairs = offs[:, None] * 2 + tl.arange(0, 2)[None, :]  # [BLOCK, 2] floats
    mask = offs[:, None] < N
    a, b = tl.split(tl.load(x_ptr + pairs, mask=mask, other=0.0))
    c, d = tl.split(tl.load(y_ptr + pairs, mask=mask, other=0.0))
    a = a * c - b * d
    b = a * d + b * c
    tl.store(z_ptr + pairs, tl.join(a, b), mask=mask)


def complex_multiply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x)
    N = x.numel()
    BLOCK = 512
    complex_multiply_kernel[(triton.cdiv(N, BLOCK),)](
        torch.view_as_real(x), torch.view_as_real(y), torch.view_as_real(z), N, BLOCK=BLOCK
    )
    return z
