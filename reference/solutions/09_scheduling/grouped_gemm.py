"""09.4  Grouped matmul: one good answer.

As many programs as multiprocessors walk over the tiles of all groups, and find the group of a tile
by comparing its number with a running sum of all groups at once. Within a group tiles come in the
order of chapter 07. The size of a tile follows from the mean size of a group, which is known
without the ends. Large products load by descriptors, as in 07.5; rows that they fetch of the next
group are not stored.
"""

from __future__ import annotations

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
def grouped_matmul_kernel(
    a_ptr, b_ptr, a_descriptor, b_descriptor, c_ptr, ends_ptr,
    N, K, G,
    stride_am, stride_ak,
    stride_bg, stride_bk, stride_bn,
    stride_ends,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, GROUPS: tl.constexpr,
):  # fmt: skip
    # The rows of tiles of all groups, numbered through: group g has those up to lasts[g].
    offs_g = tl.arange(0, GROUPS)
    mask_g = offs_g < G
    ends_ptrs = ends_ptr + offs_g.to(tl.int64) * stride_ends
    starts = tl.load(ends_ptrs - stride_ends, mask=mask_g & (offs_g > 0), other=0)
    ends = tl.load(ends_ptrs, mask=mask_g, other=0)
    heights = tl.where(mask_g, tl.cdiv(ends - starts, BLOCK_M), 0).to(tl.int32)
    lasts = tl.cumsum(heights, axis=0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    a_step = tl.cast(stride_ak, tl.int64) * BLOCK_K
    b_step = tl.cast(stride_bk, tl.int64) * BLOCK_K
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)
    for tile in range(tl.program_id(0), tl.max(lasts, axis=0) * tiles_n, tl.num_programs(0)):
        # Those that are over lie before this one; groups without rows are among them.
        over = lasts <= tile // tiles_n
        group = tl.sum(over.to(tl.int32), axis=0)
        begun = tl.max(tl.where(over, lasts, 0), axis=0)
        tiles_m = tl.max(tl.where(offs_g == group, heights, 0), axis=0)
        group_ptr = ends_ptr + group.to(tl.int64) * stride_ends
        start = tl.load(group_ptr - stride_ends, mask=group > 0, other=0).to(tl.int64)
        end = tl.load(group_ptr).to(tl.int64)

        # Within a group in the order of chapter 07.
        number = tile - begun * tiles_n
        first_m = number // (GROUP_M * tiles_n) * GROUP_M
        rows = min(tiles_m - first_m, GROUP_M)
        place = number % (GROUP_M * tiles_n)
        pid_m, pid_n = first_m + place % rows, place // rows
        offs_m = start + pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = pid_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
        mask_m, mask_n = offs_m < end, offs_n < N
        a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
        b_ptrs = b_ptr + group.to(tl.int64) * stride_bg
        b_ptrs += offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
        row = start.to(tl.int32) + pid_m * BLOCK_M
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        # As in 07.5: with a path that skips the loop, Triton 3.6 waits for each wgmma.
        tl.assume(K > 0)
        for k in range(0, K, BLOCK_K):
            if a_descriptor is None:
                mask_k = offs_k < K - k
                a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
                b = tl.load(b_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
            else:
                a = a_descriptor.load([row, k])
                b = b_descriptor.load([group, k, pid_n * BLOCK_N]).reshape(BLOCK_K, BLOCK_N)
            acc = tl.dot(a, b, acc)
            a_ptrs += a_step
            b_ptrs += b_step
        c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
        tl.store(c_ptrs, acc, mask=mask_m[:, None] & mask_n[None, :])


def tile_shape(T: int, N: int, G: int, programs: int) -> tuple[int, int]:
    """BLOCK_M and BLOCK_N, from what is known without the ends: the mean size of a group."""
    BLOCK_M, BLOCK_N = 128, 256
    if triton.cdiv(T, BLOCK_M) * triton.cdiv(N, BLOCK_N) < programs:
        BLOCK_M, BLOCK_N = 64, 64
    return (
        min(BLOCK_M, max(16, triton.next_power_of_2(T // G))),
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


def is_addressable(x: torch.Tensor) -> bool:
    """Whether the tensor memory accelerator can fetch tiles of x."""
    steps = [stride * x.element_size() for stride in x.stride()[:-1]]
    aligned = x.data_ptr() % 16 == 0 and all(it > 0 and it % 16 == 0 for it in steps)
    return aligned and x.stride(-1) == 1


def grouped_matmul(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    if a.dim() != 2 or a.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"a must be 2-D and float16, bfloat16 or float32, not {a.dtype} {tuple(a.shape)}"
        )
    T, K = a.shape
    if b.dim() != 3 or b.shape[1] != K or b.dtype != a.dtype:
        raise ValueError(f"b must be {a.dtype} (G, {K}, N), not {b.dtype} {tuple(b.shape)}")
    G, _, N = b.shape
    if ends.shape != (G,) or ends.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"ends must be int32 or int64 ({G},), not {ends.dtype} {tuple(ends.shape)}"
        )
    if 0 in (T, N, K):
        return torch.zeros(T, N, dtype=a.dtype, device=a.device)
    c = torch.empty(T, N, dtype=a.dtype, device=a.device)
    programs = multiprocessors(a.device)
    BLOCK_M, BLOCK_N = tile_shape(T, N, G, programs)
    BLOCK_K = 128 // a.element_size()  # 128 bytes: a whole line of the cache
    descriptors = None, None
    # The tiles of small groups would fetch mostly rows of the next ones.
    if (
        has_tma(a.device)
        and a.element_size() == 2
        and T * K * N >= LARGE
        and BLOCK_M == 128
        and is_addressable(a)
        and is_addressable(b)
    ):
        descriptors = (
            TensorDescriptor.from_tensor(a, [BLOCK_M, BLOCK_K]),
            TensorDescriptor.from_tensor(b, [1, BLOCK_K, BLOCK_N]),
        )
    # Each group can have one row of tiles that is not full, whatever the ends are.
    most = (triton.cdiv(T, BLOCK_M) + G - 1) * triton.cdiv(N, BLOCK_N)
    grouped_matmul_kernel[(min(programs, most),)](
        a, b, *descriptors, c, ends, N, K, G, *a.stride(), *b.stride(), ends.stride(0),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K,
        GROUP_M=8, GROUPS=triton.next_power_of_2(G),
        num_warps=8 if BLOCK_M * BLOCK_N > 128 * 128 else 4,
        num_stages=3 if descriptors[0] is None else 4,
    )  # fmt: skip
    return c
