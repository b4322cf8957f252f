# fault: the rows of a tile are masked by M and not by the end of their group
# cause: this program's loop in line \d+ ends before end .* compare with end

import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm_backward_kernel(
    dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, partial_ptr,
    M, N,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0)
    size = tl.cdiv(M, tl.num_programs(0))
    first = group * size
    end = tl.minimum(first + size, M)
    cols = tl.arange(0, BLOCK_N)[None, :]
    weight = tl.load(weight_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    dweight = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    dbias = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in tl.range(first, end, BLOCK_M, num_stages=3):
        rows = (start + tl.arange(0, BLOCK_M))[:, None]
        inside = rows < M
        mask = inside & (cols < N)
        offs = rows.to(tl.int64) * N + cols
        dy = tl.load(dy_ptr + offs, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + rows, mask=inside, other=0.0)
        rstd = tl.load(rstd_ptr + rows, mask=inside, other=0.0)
        x_hat = tl.where(mask, (x - mean) * rstd, 0.0)
        g = dy * weight
        mean_g = tl.sum(g, axis=1, keep_dims=True) / N
        mean_gx = tl.sum(g * x_hat, axis=1, keep_dims=True) / N
        dx = rstd * (g - mean_g - x_hat * mean_gx)
        tl.store(dx_ptr + offs, dx, mask=mask)
        dweight += dy * x_hat
        dbias += dy
    lanes = tl.arange(0, BLOCK_N)
    out_ptr = partial_ptr + group.to(tl.int64) * 2 * N + lanes
    tl.store(out_ptr, tl.sum(dweight, axis=0), mask=lanes < N)
    tl.store(out_ptr + N, tl.sum(dbias, axis=0), mask=lanes < N)


@triton.jit
def add_groups_kernel(
    partial_ptr, dweight_ptr, dbias_ptr,
    groups, N,
    BLOCK_G: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    dweight = tl.zeros((BLOCK_G, BLOCK_N), dtype=tl.float32)
    dbias = tl.zeros((BLOCK_G, BLOCK_N), dtype=tl.float32)
    for start in range(0, groups, BLOCK_G):
        g = (start + tl.arange(0, BLOCK_G))[:, None]
        mask = (g < groups) & (cols[None, :] < N)
        part_ptr = partial_ptr + g.to(tl.int64) * 2 * N + cols[None, :]
        dweight += tl.load(part_ptr, mask=mask, other=0.0)
        dbias += tl.load(part_ptr + N, mask=mask, other=0.0)
    tl.store(dweight_ptr + cols, tl.sum(dweight, axis=0), mask=cols < N)
    tl.store(dbias_ptr + cols, tl.sum(dbias, axis=0), mask=cols < N)


def layer_norm_backward(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    M, N = x.shape
    dx = torch.empty_like(x)
    dweight = torch.empty_like(weight)
    dbias = torch.empty_like(weight)
    groups = min(triton.cdiv(M, 32), 256)
    partial = torch.empty((groups, 2, N), dtype=torch.float32, device=x.device)
    BLOCK_N = triton.next_power_of_2(N)
    BLOCK_M = min(16, max(1, 4096 // BLOCK_N))
    num_warps = 8 if BLOCK_N >= 2048 else 4
    layer_norm_backward_kernel[(groups,)](
        dy, x, weight, mean, rstd, dx, partial, M, N,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=num_warps,
    )  # fmt: skip
    add_groups_kernel[(triton.cdiv(N, 32),)](
        partial, dweight, dbias, groups, N, BLOCK_G=32, BLOCK_N=32
    )
    return dx, dweight, dbias
