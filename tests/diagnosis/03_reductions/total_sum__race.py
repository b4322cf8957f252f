# fault: every program loads the total, adds its part and stores it: no atomic
# cause: race|atomic|other program|another program
import torch
import triton
import triton.language as tl


@triton.jit
def total_sum_kernel(x_ptr, total_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N, other=0.0).to(tl.float32)
    tl.store(total_ptr, tl.load(total_ptr) + tl.sum(x, axis=0))


def total_sum(x):
    N = x.numel()
    total = torch.zeros((), dtype=torch.float32, device=x.device)
    total_sum_kernel[(triton.cdiv(N, 1024),)](x, total, N, BLOCK=1024)
    return total.to(x.dtype)
