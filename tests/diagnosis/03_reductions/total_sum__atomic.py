# fault: all programs add to one float by tl.atomic_add, in any order
# cause: in (any|another|no fixed) order|order in which|atomic additions
import torch
import triton
import triton.language as tl


@triton.jit
def total_sum_kernel(x_ptr, total_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N, other=0.0).to(tl.float32)
    tl.atomic_add(total_ptr, tl.sum(x, axis=0))


@triton.jit
def cast_kernel(total_ptr, y_ptr):
    tl.store(y_ptr, tl.load(total_ptr))


def total_sum(x):
    N = x.numel()
    total = torch.zeros((), dtype=torch.float32, device=x.device)
    y = torch.empty((), dtype=x.dtype, device=x.device)
    total_sum_kernel[(triton.cdiv(N, 4096),)](x, total, N, BLOCK=4096)
    cast_kernel[(1,)](total, y)
    return y
