"""12.3  Group norm: one good answer.

A group is cut into up to 256 parts, so that few large groups have many programs too. Each part
stores count, mean and squares, and the second kernel merges them by Chan's formula. It goes through
the groups backwards, because what was loaded last is still in the L2 cache.
"""

import torch
import triton
import triton.language as tl

TILE = 8192
# A group is split into at most so many parts, whose statistics every program merges again.
MOST_PARTS = 256


@triton.jit
def tile_of(
    x_ptr, tile, b, first, width, L,
    stride_b, stride_c, stride_l,
    BLOCK_C: tl.constexpr, BLOCK_L: tl.constexpr,
):  # fmt: skip
    """A tile of a group of `width` channels: its channels, columns, mask and elements."""
    tiles_l = tl.cdiv(L, BLOCK_L)
    offs_c = (tile // tiles_l * BLOCK_C + tl.arange(0, BLOCK_C)).to(tl.int64)[:, None]
    offs_l = (tile % tiles_l).to(tl.int64) * BLOCK_L + tl.arange(0, BLOCK_L)[None, :]
    mask = (offs_c < width) & (offs_l < L)
    ptrs = x_ptr + b * stride_b + (first + offs_c) * stride_c + offs_l * stride_l
    return first + offs_c, offs_l, mask, tl.load(ptrs, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def group_parts_kernel(
    x_ptr, part_ptr,
    C, L, groups,
    stride_b, stride_c, stride_l,
    BLOCK_C: tl.constexpr, BLOCK_L: tl.constexpr,
):  # fmt: skip
    part, parts, group = tl.program_id(1), tl.num_programs(1), tl.program_id(0)
    b, width = (group // groups).to(tl.int64), C // groups
    first = (group % groups).to(tl.int64) * width
    tiles = tl.cdiv(width, BLOCK_C) * tl.cdiv(L, BLOCK_L)
    # Numbers have 0 dimensions here: how many elements, their mean, their squares about it.
    count, mean, squares = 0.0, 0.0, 0.0
    for tile in range(part, tiles, parts):
        _, _, mask, x = tile_of(
            x_ptr, tile, b, first, width, L, stride_b, stride_c, stride_l, BLOCK_C, BLOCK_L
        )
        here = tl.sum(mask.to(tl.float32))
        mean_here = tl.sum(x) / here
        centred = tl.where(mask, x - mean_here, 0.0)
        # Chan's formula: the distance of the means counts too.
        delta = mean_here - mean
        share = here / (count + here)
        squares += tl.sum(centred * centred) + delta * delta * count * share
        mean += delta * share
        count += here
    part_ptrs = part_ptr + (group.to(tl.int64) * parts + part) * 3
    tl.store(part_ptrs, count)
    tl.store(part_ptrs + 1, mean)
    tl.store(part_ptrs + 2, squares)


@triton.jit
def group_norm_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, rstd_ptr, part_ptr,
    C, L, groups, eps,
    stride_b, stride_c, stride_l, stride_w, stride_bias,
    PARTS: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_L: tl.constexpr,
):  # fmt: skip
    # Backwards: what the other kernel loaded last is still in the L2 cache.
    parts = tl.num_programs(1)
    part, group = parts - 1 - tl.program_id(1), tl.num_programs(0) - 1 - tl.program_id(0)
    b, width = (group // groups).to(tl.int64), C // groups
    first = (group % groups).to(tl.int64) * width
    offs_p = tl.arange(0, PARTS)
    part_ptrs = part_ptr + (group.to(tl.int64) * parts + offs_p) * 3
    counts = tl.load(part_ptrs, mask=offs_p < parts, other=0.0)
    means = tl.load(part_ptrs + 1, mask=offs_p < parts, other=0.0)
    squares = tl.load(part_ptrs + 2, mask=offs_p < parts, other=0.0)
    count = tl.sum(counts)
    mean = tl.sum(counts * means) / count
    away = means - mean
    rstd = 1.0 / tl.sqrt_rn(tl.sum(squares + counts * away * away) / count + eps)
    if part == 0:
        tl.store(mean_ptr + group, mean)
        tl.store(rstd_ptr + group, rstd)
    tiles = tl.cdiv(width, BLOCK_C) * tl.cdiv(L, BLOCK_L)
    for tile in range(part, tiles, parts):
        offs_c, offs_l, mask, x = tile_of(
            x_ptr, tile, b, first, width, L, stride_b, stride_c, stride_l, BLOCK_C, BLOCK_L
        )
        inside = offs_c < first + width
        weight = tl.load(weight_ptr + offs_c * stride_w, mask=inside, other=0.0).to(tl.float32)
        bias = tl.load(bias_ptr + offs_c * stride_bias, mask=inside, other=0.0).to(tl.float32)
        y_ptrs = y_ptr + (b * C + offs_c) * L + offs_l
        tl.store(y_ptrs, (x - mean) * rstd * weight + bias, mask=mask)


def check(x: torch.Tensor, groups: int, weight: torch.Tensor, bias: torch.Tensor) -> None:
    """Raises ValueError that names the first argument that does not fit."""
    if x.dim() != 3 or x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"x must be 3-D and float16, bfloat16 or float32, not {x.dtype} {tuple(x.shape)}"
        )
    C = x.shape[1]
    if groups < 1 or C % groups:
        raise ValueError(f"groups must divide the {C} channels of x, {groups} does not")
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor.shape != (C,) or tensor.dtype != x.dtype:
            raise ValueError(
                f"{name} must be {x.dtype} {(C,)}, not {tensor.dtype} {tuple(tensor.shape)}"
            )


def group_norm(
    x: torch.Tensor, groups: int, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    check(x, groups, weight, bias)
    B, C, L = x.shape
    y = torch.empty((B, C, L), dtype=x.dtype, device=x.device)
    mean = torch.empty((B, groups), dtype=torch.float32, device=x.device)
    rstd = torch.empty((B, groups), dtype=torch.float32, device=x.device)
    # The tile is long where the memory is: along the channels if they come last.
    width = C // groups
    if x.stride(1) < x.stride(2):
        BLOCK_C = min(triton.next_power_of_2(width), TILE)
        BLOCK_L = min(triton.next_power_of_2(L), TILE // BLOCK_C)
    else:
        BLOCK_L = min(triton.next_power_of_2(L), TILE // 16)
        BLOCK_C = min(triton.next_power_of_2(width), TILE // BLOCK_L)
    tiles = triton.cdiv(width, BLOCK_C) * triton.cdiv(L, BLOCK_L)
    parts = min(tiles, MOST_PARTS)
    partial = torch.empty((B * groups, parts, 3), dtype=torch.float32, device=x.device)
    grid, blocks = (B * groups, parts), {"BLOCK_C": BLOCK_C, "BLOCK_L": BLOCK_L}
    group_parts_kernel[grid](x, partial, C, L, groups, *x.stride(), **blocks)
    group_norm_kernel[grid](
        x, weight, bias, y, mean, rstd, partial,
        C, L, groups, eps, *x.stride(), weight.stride(0), bias.stride(0),
        PARTS=triton.next_power_of_2(parts), **blocks,
    )  # fmt: skip
    return y, mean, rstd
