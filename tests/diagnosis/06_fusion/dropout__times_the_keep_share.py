# fault: the kept elements are multiplied by 1 - p
# cause: multiplied by 1 - p
import torch
import triton
import triton.language as tl

PROGRAMS = 2048


@triton.jit
def dropout_kernel(x_ptr, y_ptr, N, p, scale, seed, BLOCK: tl.constexpr):
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.program_id(0) * BLOCK, N, step):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < N
        x = tl.load(x_ptr + offs, mask=mask)
        keep = tl.rand(seed, offs) > p
        tl.store(y_ptr + offs, tl.where(keep, x * scale, 0.0), mask=mask)


def dropout(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    y = torch.empty_like(x)
    N, BLOCK = x.numel(), 1024
    grid = (min(triton.cdiv(N, BLOCK), PROGRAMS),)
    dropout_kernel[grid](x, y, N, p, 1 - p, seed, BLOCK=BLOCK)
    return y
