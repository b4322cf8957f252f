# fault: the whole tile is loaded and multiplied by the mask: 0 * NaN is NaN
# cause: x \* 0 is -0
import torch
import triton
import triton.language as tl


@triton.jit
def triu_kernel(x_ptr, y_ptr, M, N, diagonal, BLOCK: tl.constexpr):
    offs_m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offs_n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    offs = offs_m[:, None] * N + offs_n[None, :]
    inside = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tile = tl.zeros((BLOCK, BLOCK), dtype=y_ptr.dtype.element_ty)
    if tl.max(offs_n) - tl.min(offs_m) >= diagonal:
        keep = inside & (offs_n[None, :] - offs_m[:, None] >= diagonal)
        tile = tl.load(x_ptr + offs, mask=inside, other=0.0) * keep
    tl.store(y_ptr + offs, tile, mask=inside)


def triu(x, diagonal=0):
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK = 64
    triu_kernel[(triton.cdiv(M, BLOCK), triton.cdiv(N, BLOCK))](x, y, M, N, diagonal, BLOCK=BLOCK)
    return y
