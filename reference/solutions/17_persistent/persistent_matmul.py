"""17.2  Persistent matmul: one good answer.

As many programs as multiprocessors walk over the tiles, in groups of 8 rows, and what does not
depend on the tile is computed once, before the loop. Small products get tiles of 64 x 64, or some
programs would have none. Offsets have 64 bits. Large aligned factors are loaded by descriptors, as
in 17.3, and the two loops flattened into one: the next tile's loads begin while this one is stored.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# Multiplications from which on descriptors gain time.
LARGE = 2**26


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def persistent_matmul_kernel(
    a_ptr, b_ptr, c_ptr, a_desc, b_desc, c_desc,
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
    # Loads by pointers make a flattened loop slow: 5.1 ms instead of 0.88 at 4003 x 4001 x 4007.
    FLATTEN: tl.constexpr = a_desc is not None
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=FLATTEN):
        first_m = tile // (GROUP_M * tiles_n) * GROUP_M
        rows = min(tiles_m - first_m, GROUP_M)
        place = tile % (GROUP_M * tiles_n)
        pid_m, pid_n = first_m + place % rows, place // rows
        offs_m = tl.cast(pid_m, tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = tl.cast(pid_n, tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
        mask_m, mask_n = offs_m < M, offs_n < N
        a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
        b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            if a_desc is None:
                mask_k = offs_k < K - k
                a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
                b = tl.load(b_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
            else:
                a = a_desc.load([pid_m * BLOCK_M, k])
                b = b_desc.load([k, pid_n * BLOCK_N])
            acc = tl.dot(a, b, acc)
            a_ptrs += a_step
            b_ptrs += b_step
        if c_desc is None:
            c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
            tl.store(c_ptrs, acc, mask=mask_m[:, None] & mask_n[None, :])
        else:
            # Half of the columns at a time, which leaves shared memory for a fourth stage.
            halves = acc.to(c_desc.dtype).reshape(BLOCK_M, 2, BLOCK_N // 2).permute(0, 2, 1)
            left, right = halves.split()
            c_desc.store([pid_m * BLOCK_M, pid_n * BLOCK_N], left)
            c_desc.store([pid_m * BLOCK_M, pid_n * BLOCK_N + BLOCK_N // 2], right)


def shared_memory(device: torch.device) -> int:
    """How many bytes of shared memory a program can have; an H100's in the interpreter."""
    if device.type != "cuda":
        return 227 * 1024
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


def has_tma(device: torch.device) -> bool:
    """Whether there are TMA, and shared memory for four stages of tiles and half a tile of c."""
    if device.type == "cuda" and torch.cuda.get_device_properties(device).major < 9:
        return False
    return shared_memory(device) >= 225 * 1024


def is_addressable(x: torch.Tensor) -> bool:
    """Whether TMA can fetch and store tiles of x."""
    aligned = x.stride(0) * x.element_size() % 16 == 0 and x.data_ptr() % 16 == 0
    return aligned and x.stride(1) == 1 and x.stride(0) >= x.shape[1]


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
    descriptors = None, None, None
    large = not small and a.element_size() == 2 and M * N * K >= LARGE
    if large and has_tma(a.device) and all(map(is_addressable, (a, b, c))):
        descriptors = (
            TensorDescriptor.from_tensor(a, [BLOCK_M, BLOCK_K]),
            TensorDescriptor.from_tensor(b, [BLOCK_K, BLOCK_N]),
            TensorDescriptor.from_tensor(c, [BLOCK_M, BLOCK_N // 2]),
        )
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    persistent_matmul_kernel[(min(tiles, multiprocessors(a.device)),)](
        a, b, c, *descriptors, M, N, K, *a.stride(), *b.stride(),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=8,
        num_warps=num_warps, num_stages=3 if descriptors[0] is None else 4,
    )  # fmt: skip
    return c
