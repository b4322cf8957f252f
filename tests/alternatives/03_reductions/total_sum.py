"""One launch: the program that ends last adds the partial sums."""

import torch
import triton
import triton.language as tl


@triton.jit
def partial_sum_kernel(
    x_ptr, partial_ptr, total_ptr, done_ptr, N, sizes, strides, BLOCK: tl.constexpr
):
    pid = tl.program_id(0)
    offs = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    rest = offs
    ptrs = x_ptr
    for d in tl.static_range(len(sizes) - 1, 0, -1):
        ptrs += rest % sizes[d] * strides[d]
        rest = rest // sizes[d]
    ptrs += rest * strides[0]
    tl.store(partial_ptr + pid, tl.sum(tl.load(ptrs, mask=offs < N, other=0).to(tl.float32)))
    if tl.atomic_add(done_ptr, 1) == tl.num_programs(0) - 1:
        acc = 0.0
        for i in range(tl.num_programs(0)):
            acc += tl.load(partial_ptr + i)
        tl.store(total_ptr, acc)


def total_sum(x):
    if not x.is_floating_point():
        raise ValueError("x")
    if x.numel() == 0:
        return torch.zeros((), dtype=x.dtype, device=x.device)
    P = triton.cdiv(x.numel(), 1024)
    p = torch.empty(P, device=x.device)
    t = torch.empty((), dtype=x.dtype, device=x.device)
    d = torch.zeros(1, dtype=torch.int32, device=x.device)
    shape, stride = (tuple(x.shape), x.stride()) if x.dim() else ((1,), (1,))
    partial_sum_kernel[(P,)](x, p, t, d, x.numel(), shape, stride, BLOCK=1024)
    return t
