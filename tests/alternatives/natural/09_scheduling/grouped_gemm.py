# As in Triton's tutorial: each program walks through all groups and takes its tiles as it meets
# them. Tiles of one size, rows before columns, offsets of 32 bits.

import torch
import triton
import triton.language as tl


def multiprocessors(device):
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
    tile = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    start = tl.zeros((), tl.int32)
    first_tile = tl.zeros((), tl.int32)
    for g in range(G):
        end = tl.load(ends_ptr + g * stride_ends).to(tl.int32)
        tiles = tl.cdiv(end - start, BLOCK_M) * tiles_n
        while tile < first_tile + tiles:
            number = tile - first_tile
            offs_m = start + number // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
            offs_n = number % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
            acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for step in range(0, K, BLOCK_K):
                k = step + tl.arange(0, BLOCK_K)
                a_ptrs = a_ptr + offs_m[:, None] * stride_am + k[None, :] * stride_ak
                b_ptrs = (
                    b_ptr + g * stride_bg + k[:, None] * stride_bk + offs_n[None, :] * stride_bn
                )
                a = tl.load(a_ptrs, mask=(offs_m[:, None] < end) & (k[None, :] < K), other=0.0)
                b = tl.load(b_ptrs, mask=(k[:, None] < K) & (offs_n[None, :] < N), other=0.0)
                acc += tl.dot(a, b)
            c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
            inside = (offs_m[:, None] < end) & (offs_n[None, :] < N)
            tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=inside)
            tile += tl.num_programs(0)
        first_tile += tiles
        start = end


def grouped_matmul(a, b, ends):
    (T, K), (G, _, N) = a.shape, b.shape
    c = torch.empty((T, N), dtype=a.dtype, device=a.device)
    grouped_matmul_kernel[(multiprocessors(a.device),)](
        a, b, c, ends, N, K, G, *a.stride(), *b.stride(), ends.stride(0),
        BLOCK_M=128, BLOCK_N=128, BLOCK_K=64 if a.element_size() == 2 else 32, num_warps=8,
    )  # fmt: skip
    return c
