"""09.3  Gram matrix: one good answer.

Rows of tiles are paired, the longest with the shortest, which makes a rectangle of the triangle,
and that is walked through in groups for the L2 cache. A tile below the diagonal is computed once
and stored twice, the second time transposed. Tiles that the diagonal cuts are stored under a mask
along it, and no others. Large products load by descriptors, as in 07.5, and rows that begin at no
multiple of 16 bytes are copied first.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# Multiplications from which on descriptors, and a copy of rows that are not aligned, gain time.
LARGE = 2**26


@triton.jit
def realign_kernel(
    x_ptr, y_ptr,
    M, N,
    stride_xm, stride_ym,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    pid, tiles_n = tl.program_id(0).to(tl.int64), tl.cdiv(N, BLOCK_N)
    rows = (pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    cols = (pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    x = tl.load(x_ptr + rows * stride_xm + cols, mask=(rows < M) & (cols < N), other=0.0)
    # The padding is stored, too: up to the end of a whole line lanes can store 16 bytes.
    tl.store(y_ptr + rows * stride_ym + cols, x, mask=(rows < M) & (cols < stride_ym))


@triton.jit
def gram_matrix_kernel(
    a_ptr, a_descriptor, b_descriptor, c_ptr,
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
        if a_descriptor is None:
            mask_k = offs_k < K - k
            a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
            b = tl.load(b_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
        else:
            a = a_descriptor.load([start_m.to(tl.int32), k])  # [BLOCK_M, BLOCK_K]
            b = b_descriptor.load([start_n.to(tl.int32), k]).T  # [BLOCK_K, BLOCK_N]
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


def shared_memory(device: torch.device) -> int:
    """How many bytes of shared memory a program can have; an H100's in the interpreter."""
    if device.type != "cuda":
        return 227 * 1024
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


def has_tma(device: torch.device) -> bool:
    """Whether there is a tensor memory accelerator, and shared memory for four stages of tiles."""
    if device.type == "cuda" and torch.cuda.get_device_properties(device).major < 9:
        return False
    return shared_memory(device) >= 200 * 1024


def has_rows(x: torch.Tensor) -> bool:
    """Whether the rows of x are contiguous, and none lies on another."""
    return x.stride(1) == 1 and x.stride(0) >= x.shape[1]


def realigned(x: torch.Tensor) -> torch.Tensor:
    """x, or a copy of it if its rows begin at no multiples of 16 bytes.

    Those of the copy begin at lines of the cache, of 128 bytes.
    """
    if x.data_ptr() % 16 == 0 and x.stride(0) * x.element_size() % 16 == 0:
        return x
    M, N = x.shape
    y = torch.empty(M, triton.cdiv(N, 64) * 64, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 4) * triton.cdiv(N, 1024),)
    realign_kernel[grid](x, y, M, N, x.stride(0), y.stride(0), BLOCK_M=4, BLOCK_N=1024, num_warps=8)
    return y[:, :N]


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
    # Nor are there registers for as many addresses to store to, where it does not divide M.
    if (K % 16 or M % 16) and a.element_size() == 2:
        BLOCK_N = min(BLOCK_N, 128)
    BLOCK_K = 128 // a.element_size()  # 128 bytes: a whole line of the cache
    descriptors = None, None
    if has_tma(a.device) and a.element_size() == 2 and M * M * K >= LARGE and has_rows(a):
        rows = realigned(a)
        descriptors = (
            TensorDescriptor.from_tensor(rows, [BLOCK_M, BLOCK_K]),
            TensorDescriptor.from_tensor(rows, [BLOCK_N, BLOCK_K]),
        )
    tiles_m = triton.cdiv(M, BLOCK_M)
    tiles = sum(i * BLOCK_M // BLOCK_N + 1 for i in range(tiles_m))
    gram_matrix_kernel[(tiles,)](
        a, *descriptors, c, M, K, *a.stride(),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP=8,
        num_warps=num_warps, num_stages=3 if descriptors[0] is None else 4,
    )  # fmt: skip
    return c
