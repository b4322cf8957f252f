"""07.4  Batched matmul: one good answer.

Products and tiles share one axis of the grid, so that neither ends at 65535, and tiles of one
product follow each other and find its factors in the cache. A batch of size 1 gets stride 0 by
expand, and the kernel need not know. Many multiplications load by descriptors, as chapter 17 does;
rows that begin at no multiple of 16 bytes are copied first. Where the rows of c are aligned, there
is a program for each multiprocessor, whose loads for the next tile begin while it stores this one.
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
def batched_matmul_kernel(
    a_ptr, b_ptr, a_descriptor, b_descriptor, c_ptr,
    M, N, K,
    stride_ab, stride_am, stride_ak,
    stride_bb, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # One axis of the grid, since the others hold 65535 programs at most. All tiles of a product
    # come before the next product's, so that they find its factors in the cache.
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    tile = pid % (tiles_m * tiles_n)
    batch = (pid // (tiles_m * tiles_n)).to(tl.int64)
    pid_m, pid_n = tile % tiles_m, tile // tiles_m
    offs_m = pid_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)
    mask_m, mask_n = offs_m < M, offs_n < N
    a_ptr += batch * stride_ab
    b_ptr += batch * stride_bb
    c_ptr += batch * M * N
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    a_step = tl.cast(stride_ak, tl.int64) * BLOCK_K
    b_step = tl.cast(stride_bk, tl.int64) * BLOCK_K
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        if a_descriptor is None:
            mask_k = offs_k < K - k
            a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
            b = tl.load(b_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
        else:
            # A factor that all products share has a batch of 1.
            batch_a = tl.where(stride_ab == 0, 0, batch).to(tl.int32)
            batch_b = tl.where(stride_bb == 0, 0, batch).to(tl.int32)
            a = a_descriptor.load([batch_a, pid_m * BLOCK_M, k]).reshape(BLOCK_M, BLOCK_K)
            b = b_descriptor.load([batch_b, k, pid_n * BLOCK_N]).reshape(BLOCK_K, BLOCK_N)
        acc = tl.dot(a, b, acc)
        a_ptrs += a_step
        b_ptrs += b_step
    c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(c_ptrs, acc, mask=mask_m[:, None] & mask_n[None, :])


@triton.jit
def persistent_kernel(
    a_descriptor, b_descriptor, c_descriptor,
    M, N, K, tiles,
    A_IS_SHARED: tl.constexpr, B_IS_SHARED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for number in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        batch, tile = number // (tiles_m * tiles_n), number % (tiles_m * tiles_n)
        # Groups of rows of tiles, as in 07.3.
        first_m = tile // (GROUP_M * tiles_n) * GROUP_M
        rows = min(tiles_m - first_m, GROUP_M)
        place = tile % (GROUP_M * tiles_n)
        m, n = (first_m + place % rows) * BLOCK_M, place // rows * BLOCK_N
        batch_a = 0 if A_IS_SHARED else batch
        batch_b = 0 if B_IS_SHARED else batch
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            a = a_descriptor.load([batch_a, m, k]).reshape(BLOCK_M, BLOCK_K)
            b = b_descriptor.load([batch_b, k, n]).reshape(BLOCK_K, BLOCK_N)
            acc = tl.dot(a, b, acc)
        # Half of the columns at a time, which leaves shared memory for four stages.
        halves = acc.to(c_descriptor.dtype).reshape(1, BLOCK_M, 2, BLOCK_N // 2)
        left, right = halves.permute(0, 1, 3, 2).split()
        c_descriptor.store([batch, m, n], left)
        c_descriptor.store([batch, m, n + BLOCK_N // 2], right)


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


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


def realigned(x: torch.Tensor) -> torch.Tensor:
    """x (B, M, N), contiguous, or a copy of it if its rows begin at no multiples of 16 bytes.

    Those of the copy begin at lines of the cache, of 128 bytes.
    """
    if x.data_ptr() % 16 == 0 and x.stride(1) * x.element_size() % 16 == 0:
        return x
    B, M, N = x.shape
    y = torch.empty(B, M, triton.cdiv(N, 64) * 64, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(B * M, 4) * triton.cdiv(N, 1024),)
    realign_kernel[grid](
        x, y, B * M, N, x.stride(1), y.stride(1), BLOCK_M=4, BLOCK_N=1024, num_warps=8
    )
    return y[..., :N]


def batched_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dim() != 3 or a.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"a must be 3-D and float16, bfloat16 or float32, not {a.dtype} {tuple(a.shape)}"
        )
    M, K = a.shape[1:]
    if b.dim() != 3 or b.shape[1] != K or b.dtype != a.dtype:
        raise ValueError(f"b must be {a.dtype} (B, {K}, N), not {b.dtype} {tuple(b.shape)}")
    if a.shape[0] != b.shape[0] and 1 not in (a.shape[0], b.shape[0]):
        raise ValueError(f"b must have batch {a.shape[0]} like a, or 1, not {b.shape[0]}")
    B, N = max(a.shape[0], b.shape[0]), b.shape[2]
    c = torch.empty(B, M, N, dtype=a.dtype, device=a.device)
    # Where 16 does not divide K, each number is a load of its own, with an address of its own:
    # beside a tile of 256 columns there are too few registers for them.
    BLOCK_M, BLOCK_N = 128, 128 if K % 16 else 256
    BLOCK_K = 128 // a.element_size()  # 128 bytes: a whole line of the cache
    descriptors = None, None
    large = a.element_size() == 2 and B * M * N * K >= LARGE
    if large and has_tma(a.device) and a.is_contiguous() and b.is_contiguous():
        BLOCK_N = 256
        descriptors = (
            TensorDescriptor.from_tensor(realigned(a), [1, BLOCK_M, BLOCK_K]),
            TensorDescriptor.from_tensor(realigned(b), [1, BLOCK_K, BLOCK_N]),
        )
        # Smaller products can be so many that the loop over their tiles leaves 32 bits.
        if N % 8 == 0 and min(M, N) >= BLOCK_M:
            tiles = B * triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
            persistent_kernel[(min(tiles, multiprocessors(a.device)),)](
                *descriptors, TensorDescriptor.from_tensor(c, [1, BLOCK_M, BLOCK_N // 2]),
                M, N, K, tiles,
                A_IS_SHARED=a.shape[0] == 1, B_IS_SHARED=b.shape[0] == 1,
                BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=8,
                num_warps=8, num_stages=4,
            )  # fmt: skip
            return c
    a, b = a.expand(B, M, K), b.expand(B, K, N)  # a batch of size 1 gets stride 0
    grid = (B * triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    batched_matmul_kernel[grid](
        a, b, *descriptors, c, M, N, K, *a.stride(), *b.stride(),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, num_warps=8,
        num_stages=3 if descriptors[0] is None else 4,
    )  # fmt: skip
    return c
