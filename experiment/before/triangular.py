"""09.3  Gram matrix: one good answer.

Rows of tiles are paired, the longest with the shortest, which makes a rectangle of the triangle,
and that is walked through in groups for the L2 cache. A tile below the diagonal is computed once
and stored twice, the second time transposed. Tiles that the diagonal cuts are stored under a mask
along it, and no others.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gram_matrix_kernel(
    a_ptr, c_ptr,
    M, K,
    stride_am, stride_ak,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    # Row i of tiles has i // RATIO + 1 of them, up to the diagonal. Its longest row stands alone or
    # with the shortest, the next with the next: such pairs are of one length, and make a rectangle.
    RATIO: tl.constexpr = BLOCK_N // BLOCK_M
    tiles_m = tl.cdiv(M, BLOCK_M)
    odd = tiles_m % 2
    pairs, width = (tiles_m + 1) // 2, (tiles_m - 1) // RATIO + 2 - odd

    # The rectangle in grouped order, as in chapter 07.
    pid = tl.program_id(0)
    first_pair = pid // (GROUP * width) * GROUP
    size = min(pairs - first_pair, GROUP)
    place = pid % (GROUP * width)
    pair, column = first_pair + place % size, place // size
    long = tiles_m - 1 - pair
    in_long = column <= long // RATIO
    start_m = tl.where(in_long, long, pair - odd).to(tl.int64) * BLOCK_M
    start_n = tl.where(in_long, column, column - long // RATIO - 1).to(tl.int64) * BLOCK_N

    offs_m, offs_n = start_m + tl.arange(0, BLOCK_M), start_n + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)
    mask_m, mask_n = offs_m < M, offs_n < M
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    # The tile of a.T: its columns are rows of a.
    b_ptrs = a_ptr + offs_k[:, None] * stride_ak + offs_n[None, :] * stride_am
    step = tl.cast(stride_ak, tl.int64) * BLOCK_K
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # As in chapter 07: with a path that skips the loop, Triton 3.6 waits for each wgmma.
    tl.assume(K > 0)
    for k in range(0, K, BLOCK_K):
        mask_k = offs_k < K - k
        a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)  # [BLOCK_M, BLOCK_K]
        b = tl.load(b_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)  # [BLOCK_K, BLOCK_N]
        acc = tl.dot(a, b, acc)
        a_ptrs += step
        b_ptrs += step

    # Within a tile offsets fit 32 bits, which take half of the registers.
    rows, columns = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    c = acc.to(c_ptr.dtype.element_ty)
    c_ptrs = c_ptr + start_m * M + start_n + (rows[:, None] * M + columns[None, :])
    inside = mask_m[:, None] & mask_n[None, :]
    mirrored_ptrs = c_ptr + start_n * M + start_m + (columns[:, None] * M + rows[None, :])
    mirrored_inside = mask_n[:, None] & mask_m[None, :]
    above = (start_n - start_m).to(tl.int32)
    if above <= -BLOCK_N:
        tl.store(c_ptrs, c, mask=inside)
        tl.store(mirrored_ptrs, c.T, mask=mirrored_inside)
    else:
        # The diagonal cuts this tile. Under its mask each lane stores alone, so not elsewhere.
        below = rows[:, None] - columns[None, :] >= above
        tl.store(c_ptrs, c, mask=inside & below)
        strictly_below = rows[None, :] - columns[:, None] > above
        tl.store(mirrored_ptrs, c.T, mask=mirrored_inside & strictly_below)


def gram_matrix(a: torch.Tensor) -> torch.Tensor:
    if a.dim() != 2 or a.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"a must be 2-D and float16, bfloat16 or float32, not {a.dtype} {tuple(a.shape)}"
        )
    M, K = a.shape
    if 0 in (M, K):
        return torch.zeros(M, M, dtype=a.dtype, device=a.device)
    c = torch.empty(M, M, dtype=a.dtype, device=a.device)
    # Small products need small tiles: otherwise there are too few programs to fill the GPU.
    BLOCK_M, BLOCK_N, num_warps = (64, 64, 4) if M <= 1024 else (128, 256, 8)
    # As in chapter 07: where 16 does not divide K, too few loads are in flight beside 256 columns.
    if K % 16 and a.element_size() == 2:
        BLOCK_N = min(BLOCK_N, 128)
    BLOCK_K = 128 // a.element_size()  # 128 bytes: a whole line of the cache
    tiles_m = triton.cdiv(M, BLOCK_M)
    tiles = sum(i * BLOCK_M // BLOCK_N + 1 for i in range(tiles_m))
    gram_matrix_kernel[(tiles,)](
        a, c, M, K, *a.stride(),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP=8,
        num_warps=num_warps, num_stages=3,
    )  # fmt: skip
    return c
