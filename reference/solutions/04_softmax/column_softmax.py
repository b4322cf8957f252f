"""04.2  Column softmax: one good answer.

The width of a tile depends on its height: 16 columns where the registers suffice, fewer where
columns are tall. Columns that are too tall for one program are cut into chunks: one kernel stores
the maximum and the sum of each chunk, and a second one merges them and normalizes, so that a tall
and narrow matrix still has many programs.
"""

import math

import torch
import triton
import triton.language as tl

TILE = 4096
# What a program keeps on chip: half of the registers of a multiprocessor.
LARGEST = 2**15
SECTOR = 32
# Programs that a tall matrix is cut into, so that all of a GPU works on it.
PROGRAMS = 1024
MOST_CHUNKS = 256


@triton.jit
def column_softmax_kernel(
    x_ptr, y_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.arange(0, BLOCK_M).to(tl.int64)[:, None]
    cols = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    mask = (rows < M) & (cols < N)
    x_ptrs = x_ptr + rows * stride_xm + cols * stride_xn
    x = tl.load(x_ptrs, mask=mask, other=float("-inf")).to(tl.float32)
    exponentials = tl.exp(x - tl.max(x, axis=0, keep_dims=True))
    y = exponentials / tl.sum(exponentials, axis=0, keep_dims=True)
    tl.store(y_ptr + rows * N + cols, y, mask=mask)


@triton.jit
def partial_kernel(
    x_ptr, largest_ptr, total_ptr,
    M, N, chunk,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    cols = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    first = tl.program_id(1).to(tl.int64) * chunk
    largest = tl.full((1, BLOCK_N), float("-inf"), tl.float32)
    total = tl.zeros((1, BLOCK_N), tl.float32)
    for start in range(first, tl.minimum(first + chunk, M), BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)[:, None]
        x_ptrs = x_ptr + rows * stride_xm + cols * stride_xn
        mask = (rows < M) & (cols < N)
        x = tl.load(x_ptrs, mask=mask, other=float("-inf")).to(tl.float32)
        new = tl.maximum(largest, tl.max(x, axis=0, keep_dims=True))
        # As long as all is -inf nothing may be subtracted: -inf - -inf is NaN.
        shift = tl.where(new == float("-inf"), 0.0, new)
        total = total * tl.exp(largest - shift) + tl.sum(tl.exp(x - shift), axis=0, keep_dims=True)
        largest = new
    offs = tl.program_id(1).to(tl.int64) * N + cols
    tl.store(largest_ptr + offs, largest, mask=cols < N)
    tl.store(total_ptr + offs, total, mask=cols < N)


@triton.jit
def normalize_kernel(
    x_ptr, largest_ptr, total_ptr, y_ptr,
    M, N, chunk, chunks,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    cols = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    parts = tl.arange(0, BLOCK_C).to(tl.int64)[:, None]
    known = (parts < chunks) & (cols < N)
    largest = tl.load(largest_ptr + parts * N + cols, mask=known, other=float("-inf"))
    total = tl.load(total_ptr + parts * N + cols, mask=known, other=0.0)
    shift = tl.max(largest, axis=0, keep_dims=True)
    total = tl.sum(total * tl.exp(largest - shift), axis=0, keep_dims=True)
    first = tl.program_id(1).to(tl.int64) * chunk
    for start in range(first, tl.minimum(first + chunk, M), BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)[:, None]
        x_ptrs = x_ptr + rows * stride_xm + cols * stride_xn
        mask = (rows < M) & (cols < N)
        x = tl.load(x_ptrs, mask=mask, other=float("-inf")).to(tl.float32)
        tl.store(y_ptr + rows * N + cols, tl.exp(x - shift) / total, mask=mask)


def column_softmax(x: torch.Tensor) -> torch.Tensor:
    if x.dim() != 2 or not x.is_floating_point():
        raise ValueError(f"x must be 2-D and floating point, not {x.dtype} {tuple(x.shape)}")
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    strides = (x.stride(0), x.stride(1))
    BLOCK_M, widest = triton.next_power_of_2(M), triton.next_power_of_2(N)
    narrowest = SECTOR // x.element_size()
    if BLOCK_M * narrowest <= LARGEST:
        # 16 columns where that fits: two sectors side by side come faster than one.
        BLOCK_N = min(widest, max(TILE, min(16 * BLOCK_M, LARGEST)) // BLOCK_M)
        column_softmax_kernel[(triton.cdiv(N, BLOCK_N),)](
            x, y, M, N, *strides,
            BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
            num_warps=min(max(BLOCK_M * BLOCK_N // 1024, 4), 16),
        )  # fmt: skip
        return y
    BLOCK_N = min(widest, 32)
    BLOCK_M = TILE // BLOCK_N
    columns = triton.cdiv(N, BLOCK_N)
    # Every program reads the partial results of all chunks: a chunk is longer than these are many.
    chunks = min(triton.cdiv(PROGRAMS, columns), math.isqrt(M // 8), MOST_CHUNKS)
    chunk = triton.cdiv(triton.cdiv(M, chunks), BLOCK_M) * BLOCK_M
    chunks = triton.cdiv(M, chunk)
    largest = torch.empty((chunks, N), dtype=torch.float32, device=x.device)
    total = torch.empty((chunks, N), dtype=torch.float32, device=x.device)
    blocks = {"BLOCK_M": BLOCK_M, "BLOCK_N": BLOCK_N}
    grid = (columns, chunks)
    partial_kernel[grid](x, largest, total, M, N, chunk, *strides, **blocks)
    normalize_kernel[grid](
        x, largest, total, y, M, N, chunk, chunks, *strides,
        **blocks, BLOCK_C=triton.next_power_of_2(chunks),
    )  # fmt: skip
    return y
