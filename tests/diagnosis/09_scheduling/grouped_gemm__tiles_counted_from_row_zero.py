# fault: tiles of a group are counted as if they began at multiples of BLOCK_M
# cause: some tiles belong to no program
# never: the mask of the store leaves

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
    programs = tl.num_programs(0)
    tile = tl.program_id(0)  # the tile that this program computes next
    tiles_n = tl.cdiv(N, BLOCK_N)
    start = 0  # the first row of the group
    first_tile = 0  # the number of its first tile
    for g in range(G):
        end = tl.load(ends_ptr + g * stride_ends).to(tl.int32)
        tiles_m = tl.cdiv(end, BLOCK_M) - tl.cdiv(start, BLOCK_M)
        next_first = first_tile + tiles_m * tiles_n
        while tile < next_first:
            local = tile - first_tile
            offs_m = start + local // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
            offs_n = local % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
            # the last tile of a group has no row of the next one
            mask_m = offs_m < end
            mask_n = offs_n < N
            acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for k in range(0, K, BLOCK_K):
                offs_k = k + tl.arange(0, BLOCK_K)
                mask_k = offs_k < K
                a = tl.load(
                    a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak,
                    mask=mask_m[:, None] & mask_k[None, :],
                    other=0.0,
                )
                b = tl.load(
                    b_ptr + g * stride_bg + offs_k[:, None] * stride_bk
                    + offs_n[None, :] * stride_bn,
                    mask=mask_k[:, None] & mask_n[None, :],
                    other=0.0,
                )  # fmt: skip
                acc = tl.dot(a, b, acc)
            c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
            tl.store(c_ptrs, acc, mask=mask_m[:, None] & mask_n[None, :])
            tile += programs
        first_tile = next_first
        start = end


def grouped_matmul(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    T, K = a.shape
    G, _, N = b.shape
    c = torch.empty((T, N), dtype=a.dtype, device=a.device)
    # the mean size of a group is all that is known here
    BLOCK_M = 64 if T // G >= 128 else 32
    BLOCK_N = 128 if N >= 1024 else 32
    BLOCK_K = 64 if BLOCK_N == 128 else 32
    grid = (multiprocessors(a.device),)
    grouped_matmul_kernel[grid](
        a, b, c, ends,
        N, K, G,
        a.stride(0), a.stride(1),
        b.stride(0), b.stride(1), b.stride(2),
        ends.stride(0),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K,
    )  # fmt: skip
    return c
