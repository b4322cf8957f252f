# The kernel of the stub, in longer blocks, with a grid that is computed from what is launched.
import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    x = tl.load(x_ptr + offs, mask=mask)
    tl.store(y_ptr + offs, tl.where(x < 0, 0, x), mask=mask)


def relu(x):
    y = torch.empty(len(x), dtype=x.dtype, device=x.device)
    relu_kernel[lambda meta: (triton.cdiv(len(x), meta["BLOCK"]),)](
        x, y, len(x), BLOCK=4096, num_warps=8
    )
    return y
