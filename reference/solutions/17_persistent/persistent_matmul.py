"""17.2  Persistent matmul: one good answer.

As many programs as multiprocessors walk over the tiles, in groups of 8 rows, and what does not
depend on the tile is computed once, before the loop. Small products get tiles of 64 x 64, or some
programs would have none. Offsets have 64 bits.
"""

import torch
import triton
import triton.language as tl


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def persistent_matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    a_step = tl.cast(stride_ak, tl.int64) * BLOCK_K
    b_step = tl.cast(stride_bk, tl.int64) * BLOCK_K
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)
    for tile in range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
        first_m = tile // (GROUP_M * tiles_n) * GROUP_M
        rows = min(tiles_m - first_m, GROUP_M)
        place = tile % (GROUP_M * tiles_n)
        offs_m = tl.cast(first_m + place % rows, tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = tl.cast(place // rows, tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
        mask_m, mask_n = offs_m < M, offs_n < N
        a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
        b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            mask_k = offs_k < K - k
            a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
            b = tl.load(b_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
            acc = tl.dot(a, b, acc)
            a_ptrs += a_step
            b_ptrs += b_step
        c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
        tl.store(c_ptrs, acc, mask=mask_m[:, None] & mask_n[None, :])


def persistent_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dim() != 2 or a.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"a must be 2-D and float16, bfloat16 or float32, not {a.dtype} {tuple(a.shape)}"
        )
    M, K = a.shape
    if b.dim() != 2 or b.shape[0] != K or b.dtype != a.dtype:
        raise ValueError(f"b must be {a.dtype} ({K}, N), not {b.dtype} {tuple(b.shape)}")
    N = b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    # Small products need small tiles: otherwise there are too few to give each program one. And
    # where K and so both strides of a are 1, Triton keeps tiles of a twice: large ones do not fit.
    small = max(M, N) <= 1024 or K == 1
    BLOCK_M, BLOCK_N, num_warps = (64, 64, 4) if small else (128, 256, 8)
    BLOCK_K = 128 // a.element_size()  # 128 bytes: a whole line of the cache
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    persistent_matmul_kernel[(min(tiles, multiprocessors(a.device)),)](
        a, b, c, M, N, K, *a.stride(), *b.stride(),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=8,
        num_warps=num_warps, num_stages=3,
    )  # fmt: skip
    return c
