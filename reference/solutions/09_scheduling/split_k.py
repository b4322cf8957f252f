"""09.1  Split-K matmul: one good answer.

K is cut between steps, into as many pieces as fill the multiprocessors once: one program more would
cost a second round. Pieces are stored in float32 and added by a second kernel, 16 at a time, whose
loads are then in flight together. A single piece goes straight to the result. Large products load
by descriptors, as in 07.5, and rows that begin at no multiple of 16 bytes are copied first.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# BLOCK_M and BLOCK_N. The larger a tile is, the fewer times an element is loaded.
TILES = (128, 256), (64, 128), (32, 64)


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


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
def split_k_matmul_kernel(
    a_ptr, b_ptr, a_descriptor, b_descriptor, parts_ptr,
    M, N, K, pieces,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    # The tiles of one piece have neighbouring numbers: at the same time they load the same
    # columns of a and rows of b, which they then find in the L2 cache.
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    piece = (tl.program_id(0) // (tiles_m * tiles_n)).to(tl.int64)
    tile = tl.program_id(0) % (tiles_m * tiles_n)
    first_m = tile // (GROUP_M * tiles_n) * GROUP_M
    rows = min(tiles_m - first_m, GROUP_M)
    place = tile % (GROUP_M * tiles_n)

    # Whole steps, so that only the last piece can have lanes past K.
    steps = tl.cdiv(K, BLOCK_K)
    first, last = piece * steps // pieces, (piece + 1) * steps // pieces
    pid_m, pid_n = first_m + place % rows, place // rows
    offs_m = pid_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = first * BLOCK_K + tl.arange(0, BLOCK_K)
    mask_m, mask_n = offs_m < M, offs_n < N
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    a_step = tl.cast(stride_ak, tl.int64) * BLOCK_K
    b_step = tl.cast(stride_bk, tl.int64) * BLOCK_K
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    left = K - first * BLOCK_K
    count = (last - first).to(tl.int32)
    # As in chapter 07: with a path that skips the loop, Triton 3.6 waits for each wgmma.
    tl.assume(count > 0)
    for step in range(count):
        if a_descriptor is None:
            mask_k = tl.arange(0, BLOCK_K) < left
            a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
            b = tl.load(b_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
        else:
            k = (first.to(tl.int32) + step) * BLOCK_K
            a = a_descriptor.load([pid_m * BLOCK_M, k])  # [BLOCK_M, BLOCK_K]
            b = b_descriptor.load([k, pid_n * BLOCK_N])  # [BLOCK_K, BLOCK_N]
        acc = tl.dot(a, b, acc)
        a_ptrs += a_step
        b_ptrs += b_step
        left -= BLOCK_K
    part_ptr = parts_ptr + piece * M * N
    part_ptrs = part_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(part_ptrs, acc, mask=mask_m[:, None] & mask_n[None, :])


@triton.jit
def sum_pieces_kernel(
    parts_ptr, c_ptr,
    size, pieces,
    TOGETHER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    # Several pieces at a time, whose loads are then in flight together.
    for first in range(0, pieces, TOGETHER):
        numbers = tl.cast(first, tl.int64) + tl.arange(0, TOGETHER)
        mask = (numbers < pieces)[:, None] & (offs < size)[None, :]
        parts = tl.load(parts_ptr + numbers[:, None] * size + offs[None, :], mask=mask, other=0.0)
        acc += tl.sum(parts, axis=0)
    tl.store(c_ptr + offs, acc, mask=offs < size)


def tile_shape(M: int, N: int, K: int, programs: int) -> tuple[int, int]:
    """BLOCK_M and BLOCK_N of the largest tiles of which there are enough."""
    # A K that is long beside M and N is cut instead, and keeps the largest.
    for BLOCK_M, BLOCK_N in TILES[:1] if max(M, N) * 8 <= K else TILES:
        if triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N) >= programs:
            break
    return (
        min(BLOCK_M, max(16, triton.next_power_of_2(M))),
        min(BLOCK_N, max(16, triton.next_power_of_2(N))),
    )


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


def split_k_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dim() != 2 or a.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"a must be 2-D and float16, bfloat16 or float32, not {a.dtype} {tuple(a.shape)}"
        )
    M, K = a.shape
    if b.dim() != 2 or b.shape[0] != K or b.dtype != a.dtype:
        raise ValueError(f"b must be {a.dtype} ({K}, N), not {b.dtype} {tuple(b.shape)}")
    N = b.shape[1]
    if K == 0:
        return torch.zeros(M, N, dtype=a.dtype, device=a.device)
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    programs = multiprocessors(a.device)
    BLOCK_M, BLOCK_N = tile_shape(M, N, K, programs)
    large = BLOCK_M * BLOCK_N > 128 * 128
    # Whole lines of the cache, of 128 bytes. A small tile takes two a step, and needs fewer stages.
    BLOCK_K = (128 if large else 256) // a.element_size()
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    # Rounded down: one program more than there are multiprocessors would cost a second round.
    pieces = max(1, min(programs // max(1, tiles), triton.cdiv(K, BLOCK_K) // 2))
    parts = c
    if pieces > 1:
        parts = torch.empty(pieces, M, N, dtype=torch.float32, device=a.device)
    descriptors = None, None
    if (
        has_tma(a.device)
        and a.element_size() == 2
        and M * N * K >= LARGE
        and has_rows(a)
        and has_rows(b)
    ):
        descriptors = (
            TensorDescriptor.from_tensor(realigned(a), [BLOCK_M, BLOCK_K]),
            TensorDescriptor.from_tensor(realigned(b), [BLOCK_K, BLOCK_N]),
        )
    split_k_matmul_kernel[(tiles * pieces,)](
        a, b, *descriptors, parts, M, N, K, pieces, *a.stride(), *b.stride(),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=8,
        num_warps=8 if large else 4,
        num_stages=4 if large and descriptors[0] is not None else 3,
    )  # fmt: skip
    if pieces > 1:
        # As many programs as there are multiprocessors, with 4096 numbers at a time.
        BLOCK = max(128, min(512, triton.next_power_of_2(triton.cdiv(M * N, programs))))
        sum_pieces_kernel[(triton.cdiv(M * N, BLOCK),)](
            parts, c, M * N, pieces, TOGETHER=4096 // BLOCK, BLOCK=BLOCK
        )
    return c
