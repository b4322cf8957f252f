# fault: the channel of an element is its offset modulo the channels
# cause: offs % channels: with offs // L in its place

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
    group = pid % groups
    channels = C // groups
    size = channels * L
    base = pid.to(tl.int64) * size

    count = 0.0
    mean = 0.0
    squares = 0.0
    for start in range(0, size, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < size
        x = tl.load(x_ptr + base + offs, mask=mask, other=0.0).to(tl.float32)
        n = tl.minimum(size - start, BLOCK).to(tl.float32)
        block_mean = tl.sum(x, axis=0) / n
        d = tl.where(mask, x - block_mean, 0.0)
        block_squares = tl.sum(d * d, axis=0)

        total = count + n
        delta = block_mean - mean
        mean += delta * n / total
        squares += block_squares + delta * delta * count * n / total
        count = total

    rstd = 1.0 / tl.sqrt(squares / count + eps)
    tl.store(mean_ptr + pid, mean)
    tl.store(rstd_ptr + pid, rstd)

    for start in range(0, size, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < size
        x = tl.load(x_ptr + base + offs, mask=mask, other=0.0).to(tl.float32)
        channel = group * channels + offs % channels
        weight = tl.load(weight_ptr + channel, mask=mask, other=0.0).to(tl.float32)
        bias = tl.load(bias_ptr + channel, mask=mask, other=0.0).to(tl.float32)
        y = (x - mean) * rstd * weight + bias
        tl.store(y_ptr + base + offs, y.to(y_ptr.dtype.element_ty), mask=mask)


def group_norm(
    x: torch.Tensor, groups: int, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    B, C, L = x.shape
    y = torch.empty((B, C, L), dtype=x.dtype, device=x.device)
    mean = torch.empty((B, groups), dtype=torch.float32, device=x.device)
    rstd = torch.empty((B, groups), dtype=torch.float32, device=x.device)
    BLOCK = min(4096, triton.next_power_of_2(C // groups * L))
    group_norm_kernel[(B * groups,)](
        x, weight, bias, y, mean, rstd, C, L, groups, eps, BLOCK=BLOCK, num_warps=8
    )
    return y, mean, rstd
