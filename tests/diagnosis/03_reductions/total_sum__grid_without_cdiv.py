# fault: N // 4096 programs: what is left after the last whole block is not summed
# cause: the grid ends too early
import torch
import triton
import triton.language as tl


@triton.jit
def partial_sum_kernel(
    x_ptr, partial_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N, other=0.0).to(tl.float32)
    tl.store(partial_ptr + pid, tl.sum(x, axis=0))


@triton.jit
def total_sum_kernel(
    partial_ptr, total_ptr,
    P,
    BLOCK: tl.constexpr,
):  # fmt: skip
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, P, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        acc += tl.load(partial_ptr + offs, mask=offs < P, other=0.0)
    tl.store(total_ptr, tl.sum(acc, axis=0))


def total_sum(x):
    N = x.numel()
    P = max(N // 4096, 1)
    partial = torch.empty(P, dtype=torch.float32, device=x.device)
    total = torch.empty((), dtype=x.dtype, device=x.device)
    partial_sum_kernel[(P,)](x, partial, N, BLOCK=4096, num_warps=8)
    total_sum_kernel[(1,)](partial, total, P, BLOCK=1024)
    return total
