# fault: a program loads what the one before it stores in the same launch
# cause: race
import torch
import triton
import triton.language as tl


@triton.jit
def running_sum_kernel(x_ptr, ends_ptr, out_ptr, N, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N, other=0.0).to(tl.float32)
    scan = tl.cumsum(x)
    if pid > 0:
        scan += tl.load(ends_ptr + pid - 1)
    tl.store(out_ptr + offs, scan, mask=offs < N)
    tl.store(ends_ptr + pid, tl.max(tl.where(offs == pid * BLOCK + BLOCK - 1, scan, -1e30)))


def running_sum(x: torch.Tensor) -> torch.Tensor:
    N = x.numel()
    out = torch.empty_like(x)
    blocks = triton.cdiv(N, 1024)
    ends = torch.empty(blocks, dtype=torch.float32, device=x.device)
    running_sum_kernel[(blocks,)](x, ends, out, N, BLOCK=1024)
    return out
