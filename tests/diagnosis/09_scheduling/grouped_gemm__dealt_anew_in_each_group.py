# fault: the tiles of each group are dealt out from program 0 on
# cause: the busiest program does

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
    pid = tl.program_id(0)
    programs = tl.num_programs(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    start = 0
    for g in range(G):
        end = tl.load(ends_ptr + g * stride_ends).to(tl.int32)
        tiles = tl.cdiv(end - start, BLOCK_M) * tiles_n
        for tile in range(pid, tiles, programs):
            offs_m = start + tile // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
            offs_n = tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
            # rows from end on belong to the next group
            in_m = offs_m[:, None] < end
            in_n = offs_n[None, :] < N
            acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for k in range(0, K, BLOCK_K):
                offs_k = k + tl.arange(0, BLOCK_K)
                in_k = offs_k < K
                a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
                b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
                a = tl.load(a_ptrs, mask=in_m & in_k[None, :], other=0.0)
                b = tl.load(b_ptrs + g * stride_bg, mask=in_k[:, None] & in_n, other=0.0)
                acc = tl.dot(a, b, acc)
            tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc, mask=in_m & in_n)
        start = end


def grouped_matmul(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    T, K = a.shape
    G, _, N = b.shape
    c = torch.empty((T, N), dtype=a.dtype, device=a.device)
    # ends stays on the GPU: only the mean size of a group is known here
    if T * N <= 1024 * 1024:
        BLOCK_M, BLOCK_N = 32, 32
    else:
        BLOCK_M, BLOCK_N = 64 if T < 128 * G else 128, 128
    grouped_matmul_kernel[(multiprocessors(a.device),)](
        a, b, c, ends,
        N, K, G,
        a.stride(0), a.stride(1),
        b.stride(0), b.stride(1), b.stride(2),
        ends.stride(0),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=32,
        num_warps=8 if BLOCK_M == 128 else 4,
    )  # fmt: skip
    return c
