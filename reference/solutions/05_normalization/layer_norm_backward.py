"""05.4  Layer norm, backward: one good answer.

At most 264 programs walk over the rows and keep the sums for dweight and dbias in registers, so
that few partial sums go through memory; the second kernel adds them in a fixed order. The loads of
the next rows are under way while one is computed, where shared memory has room for them.
"""

import torch
import triton
import triton.language as tl

TILE = 2048
# A row and the sums of its columns fill the registers of an NVIDIA multiprocessor.
LONGEST = 2**14
# Partial sums are work that the result does not need: at least 32 rows share one.
ROWS = 32
MOST_GROUPS = 264


@triton.jit
def layer_norm_backward_kernel(
    dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, partial_ptr,
    M, N,
    stride_dm, stride_dn, stride_xm, stride_xn, stride_w, stride_mean, stride_rstd,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    group, groups = tl.program_id(0), tl.num_programs(0)
    cols = tl.arange(0, BLOCK_N).to(tl.int64)[None, :]
    weight = tl.load(weight_ptr + cols * stride_w, mask=cols < N, other=0.0).to(tl.float32)
    dweight = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    dbias = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    # With stages, the loads of the next turns are under way while this one computes.
    for start in tl.range(group * BLOCK_M, M, groups * BLOCK_M, num_stages=STAGES):
        rows = start + tl.arange(0, BLOCK_M).to(tl.int64)[:, None]
        mask = (rows < M) & (cols < N)
        dy_ptrs = dy_ptr + rows * stride_dm + cols * stride_dn
        x_ptrs = x_ptr + rows * stride_xm + cols * stride_xn
        dy = tl.load(dy_ptrs, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptrs, mask=mask, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + rows * stride_mean, mask=rows < M, other=0.0)
        rstd = tl.load(rstd_ptr + rows * stride_rstd, mask=rows < M, other=0.0)
        x_hat = (x - mean) * rstd
        dx_hat = dy * weight
        along_ones = tl.sum(dx_hat, axis=1, keep_dims=True) / N
        along_x_hat = tl.sum(dx_hat * x_hat, axis=1, keep_dims=True) / N
        dx = (dx_hat - along_ones - x_hat * along_x_hat) * rstd
        tl.store(dx_ptr + rows * N + cols, dx, mask=mask)
        dweight += dy * x_hat
        dbias += dy
    cols = tl.arange(0, BLOCK_N)
    partial_ptrs = partial_ptr + group * N + cols
    tl.store(partial_ptrs, tl.sum(dweight, axis=0), mask=cols < N)
    tl.store(partial_ptrs + groups * N, tl.sum(dbias, axis=0), mask=cols < N)


@triton.jit
def add_groups_kernel(
    partial_ptr, dweight_ptr, dbias_ptr,
    groups, N,
    BLOCK_G: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    group = tl.arange(0, BLOCK_G)[:, None]
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (group < groups) & (cols[None, :] < N)
    partial_ptrs = partial_ptr + group * N + cols[None, :]
    dweight = tl.load(partial_ptrs, mask=mask, other=0.0)
    dbias = tl.load(partial_ptrs + groups * N, mask=mask, other=0.0)
    tl.store(dweight_ptr + cols, tl.sum(dweight, axis=0), mask=cols < N)
    tl.store(dbias_ptr + cols, tl.sum(dbias, axis=0), mask=cols < N)


def layer_norm_backward(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if x.dim() != 2 or not x.is_floating_point() or x.shape[1] > LONGEST:
        raise ValueError(
            f"x must be 2-D and floating point with rows of at most {LONGEST} elements, "
            f"not {x.dtype} {tuple(x.shape)}"
        )
    M, N = x.shape
    for name, tensor, dtype, shape in (
        ("dy", dy, x.dtype, (M, N)),
        ("weight", weight, x.dtype, (N,)),
        ("mean", mean, torch.float32, (M,)),
        ("rstd", rstd, torch.float32, (M,)),
    ):
        if tensor.shape != shape or tensor.dtype != dtype:
            raise ValueError(
                f"{name} must be {dtype} {shape}, not {tensor.dtype} {tuple(tensor.shape)}"
            )
    BLOCK_N = triton.next_power_of_2(N)
    BLOCK_M = min(triton.next_power_of_2(M), max(1, TILE // BLOCK_N))
    groups = min(triton.cdiv(M, max(ROWS, BLOCK_M)), MOST_GROUPS)
    # What is under way lies in shared memory, two tiles a stage: 64 KiB at most.
    STAGES = 3 if BLOCK_M * BLOCK_N * x.element_size() <= 2**14 else 1
    dx = torch.empty((M, N), dtype=x.dtype, device=x.device)
    dweight = torch.empty(N, dtype=x.dtype, device=x.device)
    dbias = torch.empty(N, dtype=x.dtype, device=x.device)
    partial = torch.empty((2, groups, N), dtype=torch.float32, device=x.device)
    layer_norm_backward_kernel[(groups,)](
        dy, x, weight, mean, rstd, dx, partial,
        M, N,
        *dy.stride(), *x.stride(), weight.stride(0), mean.stride(0), rstd.stride(0),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, STAGES=STAGES,
        num_warps=4 if BLOCK_N <= 2**12 else 8,
    )  # fmt: skip
    add_groups_kernel[(triton.cdiv(N, 32),)](
        partial, dweight, dbias,
        groups, N,
        BLOCK_G=triton.next_power_of_2(groups), BLOCK_N=32, num_warps=8,
    )  # fmt: skip
    return dx, dweight, dbias
