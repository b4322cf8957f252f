# fault: the mask of a program's last block ends with x, not with the program's share
# cause: the last block of a program's share runs on into the share of the next
import torch
import triton
import triton.language as tl


@triton.jit
def partial_sum_kernel(
    x_ptr, partial_ptr,
    N, share,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    first = pid * share
    acc = tl.zeros([BLOCK], tl.float32)
    for start in range(0, share, BLOCK):
        offs = first + start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + offs, mask=offs < N, other=0.0).to(tl.float32)
    tl.store(partial_ptr + pid, tl.sum(acc, 0))


@triton.jit
def total_sum_kernel(
    partial_ptr, total_ptr,
    P,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offs = tl.arange(0, BLOCK)
    partial = tl.load(partial_ptr + offs, mask=offs < P, other=0.0)
    tl.store(total_ptr, tl.sum(partial, 0))


def total_sum(x: torch.Tensor) -> torch.Tensor:
    N = x.numel()
    BLOCK = 1024
    P = min(triton.cdiv(N, BLOCK), 1024)
    share = triton.cdiv(N, P)
    partial = torch.empty(P, dtype=torch.float32, device=x.device)
    total = torch.empty((), dtype=x.dtype, device=x.device)
    partial_sum_kernel[(P,)](x, partial, N, share, BLOCK=BLOCK)
    total_sum_kernel[(1,)](partial, total, P, BLOCK=triton.next_power_of_2(P))
    return total
