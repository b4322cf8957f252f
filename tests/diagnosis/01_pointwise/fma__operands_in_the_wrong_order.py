# fault: fma(z, x, y) is z * x + y
# cause: swapped
import torch
import triton
import triton.language as tl


@triton.jit
def fma_kernel(x_ptr, y_ptr, z_ptr, out_ptr, N, BLOCK: tl.constexpr, BLOCKS: tl.constexpr):
    first = tl.program_id(0) * BLOCK * BLOCKS
    for block in tl.static_range(BLOCKS):
        offs = first + block * BLOCK + tl.arange(0, BLOCK)
        mask = offs < N
        x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + offs, mask=mask, other=0.0).to(tl.float32)
        z = tl.load(z_ptr + offs, mask=mask, other=0.0).to(tl.float32)
        out = tl.fma(z, x, y)
        tl.store(out_ptr + offs, out.to(out_ptr.dtype.element_ty), mask=mask)


def fused_multiply_add(x, y, z):
    out = torch.empty_like(x)
    N = out.numel()
    BLOCK, BLOCKS = 512, 4
    fma_kernel[(triton.cdiv(N, BLOCK * BLOCKS),)](x, y, z, out, N, BLOCK=BLOCK, BLOCKS=BLOCKS)
    return out
