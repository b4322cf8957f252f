# fault: the sum starts in the dtype of x and is float32 after the first step
# cause: initial type|float32 before the loop|tl\.float32
import torch
import triton
import triton.language as tl


@triton.jit
def l1_norms_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), x_ptr.dtype.element_ty)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0).to(tl.float32)
        acc += tl.abs(x)
    tl.store(out_ptr + row, tl.sum(acc, axis=0))


def l1_norms(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    out = torch.empty(M, dtype=x.dtype, device=x.device)
    l1_norms_kernel[(M,)](x, out, N, BLOCK=1024)
    return out
