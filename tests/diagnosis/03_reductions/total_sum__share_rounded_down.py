# fault: each program sums N // P elements
# cause: N // programs rounds down
# never: one element too early
from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def partial_sum_kernel(
    x_ptr, partial_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    share = N // tl.num_programs(0)
    first = pid * share
    last = tl.minimum(first + share, N)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(first, last, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + offs, mask=offs < last, other=0.0).to(tl.float32)
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
    N = x.numel()
    BLOCK = 1024
    P = min(512, triton.cdiv(N, BLOCK))
    partial = torch.empty(P, dtype=torch.float32, device=x.device)
    total = torch.empty((), dtype=x.dtype, device=x.device)
    partial_sum_kernel[(P,)](x, partial, N, BLOCK=BLOCK)
    total_sum_kernel[(1,)](partial, total, P, BLOCK=triton.next_power_of_2(P))
    return total
