"""Each lane runs Welford's update; the lanes are merged at the end."""

import torch
import triton
import triton.language as tl


@triton.jit
def merge(na, ma, sa, nb, mb, sb):
    n = na + nb
    d = mb - ma
    w = tl.where(n > 0, nb / tl.maximum(n, 1.0), 0.0)
    return n, ma + d * w, sa + sb + d * d * na * w


@triton.jit
def welford_kernel(x_ptr, mean_ptr, v_ptr, N, sm, sn, BLOCK: tl.constexpr):
    m = tl.program_id(0).to(tl.int64)
    n = tl.zeros((BLOCK,), tl.float32)
    mean = tl.zeros((BLOCK,), tl.float32)
    s = tl.zeros((BLOCK,), tl.float32)
    for st in range(0, N, BLOCK):
        c = st + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + m * sm + c.to(tl.int64) * sn, mask=c < N, other=0).to(tl.float32)
        n = tl.where(c < N, n + 1, n)
        d = x - mean
        new = mean + d / tl.maximum(n, 1.0)
        s = tl.where(c < N, s + d * (x - new), s)
        mean = tl.where(c < N, new, mean)
    n, mean, s = tl.reduce((n, mean, s), 0, merge)
    tl.store(mean_ptr + m, mean)
    tl.store(v_ptr + m, s / (N - 1))


def welford(x):
    if x.dim() != 2 or not x.is_floating_point():
        raise ValueError("x")
    y = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    z = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    welford_kernel[(x.shape[0],)](x, y, z, x.shape[1], x.stride(0), x.stride(1), BLOCK=1024)
    return y, z
