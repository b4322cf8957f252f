# One program a group goes over it twice; a group is one stretch of memory.

import torch
import triton
import triton.language as tl


@triton.jit
def group_norm_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, rstd_ptr,
    C, L, groups, eps,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    width = C // groups
    N = width * L
    offs = tl.arange(0, BLOCK)
    mean = 0.0
    m2 = 0.0
    for start in range(0, N, BLOCK):
        mask = start + offs < N
        x = tl.load(x_ptr + pid * N + start + offs, mask=mask, other=0.0).to(tl.float32)
        size = tl.minimum(N - start, BLOCK)
        block_mean = tl.sum(x) / size
        diff = tl.where(mask, x - block_mean, 0.0)
        delta = block_mean - mean
        total = start + size
        m2 += tl.sum(diff * diff) + delta * delta * start * size / total
        mean += delta * size / total
    rstd = 1 / tl.sqrt(m2 / N + eps)
    tl.store(mean_ptr + pid, mean)
    tl.store(rstd_ptr + pid, rstd)
    for start in range(0, N, BLOCK):
        mask = start + offs < N
        x = tl.load(x_ptr + pid * N + start + offs, mask=mask, other=0.0).to(tl.float32)
        channel = pid % groups * width + (start + offs) // L
        weight = tl.load(weight_ptr + channel, mask=mask).to(tl.float32)
        bias = tl.load(bias_ptr + channel, mask=mask).to(tl.float32)
        y = (x - mean) * rstd * weight + bias
        tl.store(y_ptr + pid * N + start + offs, y, mask=mask)


def group_norm(x, groups, weight, bias, eps=1e-5):
    B, C, L = x.shape
    y = torch.empty_like(x)
    mean = torch.empty((B, groups), dtype=torch.float32, device=x.device)
    rstd = torch.empty((B, groups), dtype=torch.float32, device=x.device)
    group_norm_kernel[(B * groups,)](
        x, weight, bias, y, mean, rstd, C, L, groups, eps, BLOCK=4096, num_warps=8
    )
    return y, mean, rstd
