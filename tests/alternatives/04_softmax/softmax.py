"""One row for each program, and the reciprocal of the sum once."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, N, stride_xm, stride_xn, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x_ptrs = x_ptr + row * stride_xm + cols.to(tl.int64) * stride_xn
    x = tl.load(x_ptrs, mask=cols < N, other=float("-inf")).to(tl.float32)
    powers = tl.exp2((x - tl.max(x, axis=0)) * 1.4426950408889634)
    tl.store(y_ptr + row * N + cols, powers * (1.0 / tl.sum(powers, axis=0)), mask=cols < N)


def softmax(x):
    if x.dim() != 2 or not x.is_floating_point() or x.shape[1] > 65536:
        raise ValueError("x must be 2-D and floating point with rows of at most 65536")
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK = triton.next_power_of_2(N)
    softmax_kernel[(M,)](x, y, N, *x.stride(), BLOCK=BLOCK, num_warps=max(1, min(16, BLOCK // 256)))
    return y
