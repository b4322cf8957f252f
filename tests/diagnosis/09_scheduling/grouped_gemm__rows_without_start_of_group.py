# fault: rows of a tile are counted from 0 instead of the start of their group
# cause: has all of a tile that program
from __future__ import annotations

import torch
import triton
import triton.language as tl


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def grouped_matmul_kernel(
    a_ptr, b_ptr, c_ptr, ends_ptr,
    N, K, G,
    stride_am, stride_ak,
    stride_bg, stride_bk, stride_bn,
    stride_ends,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, BLOCK_N)
    programs = tl.num_programs(0)
    tile = tl.program_id(0)
    before = 0  # tiles of the groups that lie before this one
    start = 0
    for g in range(G):
        end = tl.load(ends_ptr + g * stride_ends).to(tl.int32)
        tiles = tl.cdiv(end - start, BLOCK_M) * tiles_n
        while tile < before + tiles:
            t = tile - before
            offs_m = t // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
            offs_n = t % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
            acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for k in range(0, K, BLOCK_K):
                offs_k = k + tl.arange(0, BLOCK_K)
                a = tl.load(
                    a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak,
                    mask=(offs_m[:, None] < end) & (offs_k[None, :] < K), other=0.0,
                )  # fmt: skip
                b = tl.load(
                    b_ptr + g * stride_bg
                    + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn,
                    mask=(offs_k[:, None] < K) & (offs_n[None, :] < N), other=0.0,
                )  # fmt: skip
                acc = tl.dot(a, b, acc)
            c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
            tl.store(c_ptrs, acc, mask=(offs_m[:, None] < end) & (offs_n[None, :] < N))
            tile += programs
        before += tiles
        start = end


def grouped_matmul(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    T, K = a.shape
    G, _, N = b.shape
    c = torch.empty((T, N), dtype=a.dtype, device=a.device)
    grid = (multiprocessors(a.device),)
    grouped_matmul_kernel[grid](
        a, b, c, ends, N, K, G,
        a.stride(0), a.stride(1), b.stride(0), b.stride(1), b.stride(2), ends.stride(0),
        BLOCK_M=32, BLOCK_N=64, BLOCK_K=32,
    )  # fmt: skip
    return c
