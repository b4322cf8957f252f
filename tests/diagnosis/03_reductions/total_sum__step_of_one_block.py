# fault: every program sums all blocks from its first one on
# cause: BLOCK \* tl.num_programs\(0\).* in its place
# never: range\(pid \* BLOCK, N, N\)

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
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(pid * BLOCK, N, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs, mask=offs < N, other=0.0)
        acc += x.to(tl.float32)
    tl.store(partial_ptr + pid, tl.sum(acc, axis=0))


@triton.jit
def total_sum_kernel(
    partial_ptr, total_ptr,
    P,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offs = tl.arange(0, BLOCK)
    partial = tl.load(partial_ptr + offs, mask=offs < P, other=0.0)
    tl.store(total_ptr, tl.sum(partial, axis=0))


def total_sum(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty((), dtype=x.dtype, device=x.device)
    N = x.numel()
    BLOCK = 1024
    P = min(triton.cdiv(N, BLOCK), 1024)
    partial = torch.empty(P, dtype=torch.float32, device=x.device)
    partial_sum_kernel[(P,)](x, partial, N, BLOCK=BLOCK)
    total_sum_kernel[(1,)](partial, y, P, BLOCK=triton.next_power_of_2(P))
    return y
