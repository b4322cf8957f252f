# fault: the difference of means is taken after the mean was merged
# cause: delta = block_mean - mean: with it before line \d+, mean \+=
import torch
import triton
import triton.language as tl


@triton.jit
def group_norm_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, rstd_ptr,
    C, L, groups, eps,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # a group is one stretch of memory: program b * groups + g takes it
    pid = tl.program_id(0).to(tl.int64)
    channels = C // groups
    size = channels * L
    first_channel = (pid % groups) * channels
    x_ptr += pid * size
    y_ptr += pid * size
    offs = tl.arange(0, BLOCK)

    # what was seen so far: count, mean, and sum of squares about that mean
    count = 0.0
    mean = 0.0
    squares = 0.0
    for start in range(0, size, BLOCK):
        mask = start + offs < size
        x = tl.load(x_ptr + start + offs, mask=mask, other=0.0).to(tl.float32)
        n = tl.minimum(BLOCK, size - start).to(tl.float32)
        block_mean = tl.sum(x, axis=0) / n
        d = tl.where(mask, x - block_mean, 0.0)
        block_squares = tl.sum(d * d, axis=0)

        total = count + n
        mean += (block_mean - mean) * n / total
        delta = block_mean - mean
        squares += block_squares + delta * delta * count * n / total
        count = total

    rstd = 1.0 / tl.sqrt(squares / count + eps)
    tl.store(mean_ptr + pid, mean)
    tl.store(rstd_ptr + pid, rstd)

    for start in range(0, size, BLOCK):
        mask = start + offs < size
        x = tl.load(x_ptr + start + offs, mask=mask, other=0.0).to(tl.float32)
        c = first_channel + (start + offs) // L
        weight = tl.load(weight_ptr + c, mask=mask, other=0.0).to(tl.float32)
        bias = tl.load(bias_ptr + c, mask=mask, other=0.0).to(tl.float32)
        y = (x - mean) * rstd * weight + bias
        tl.store(y_ptr + start + offs, y, mask=mask)


def group_norm(
    x: torch.Tensor, groups: int, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    B, C, L = x.shape
    y = torch.empty((B, C, L), dtype=x.dtype, device=x.device)
    mean = torch.empty((B, groups), dtype=torch.float32, device=x.device)
    rstd = torch.empty((B, groups), dtype=torch.float32, device=x.device)
    BLOCK = min(1024, triton.next_power_of_2(C // groups * L))
    group_norm_kernel[(B * groups,)](
        x, weight, bias, y, mean, rstd,
        C, L, groups, eps,
        BLOCK=BLOCK, num_warps=8,
    )  # fmt: skip
    return y, mean, rstd
