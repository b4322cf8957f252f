"""07.6  Autotuned matmul: one good answer.

Five configurations, from 128 x 256 to 16 x 64, are each good for something: large products, small
ones and flat ones. BLOCK_K is not tuned: it is 128 bytes, a whole line of the cache, so that a
stage takes the same shared memory for every dtype. Aligned rows come by descriptors, as in 07.5,
whose blocks each configuration sets before it runs.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


def set_blocks(args):
    """Give the descriptors, which were made before a config was chosen, its tiles."""
    if args["a_descriptor"] is not None:
        args["a_descriptor"].block_shape = [args["BLOCK_M"], args["BLOCK_K"]]
        args["b_descriptor"].block_shape = [args["BLOCK_K"], args["BLOCK_N"]]


def config(BLOCK_M, BLOCK_N, num_warps, num_stages):
    sizes = {"BLOCK_M": BLOCK_M, "BLOCK_N": BLOCK_N, "GROUP_M": 8}
    return triton.Config(sizes, num_warps=num_warps, num_stages=num_stages, pre_hook=set_blocks)


@triton.autotune(
    configs=[
        config(128, 256, num_warps=8, num_stages=3),
        config(128, 128, num_warps=4, num_stages=3),
        config(64, 128, num_warps=4, num_stages=4),
        config(64, 64, num_warps=4, num_stages=5),
        config(16, 64, num_warps=4, num_stages=5),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def autotuned_matmul_kernel(
    a_ptr, b_ptr, a_descriptor, b_descriptor, c_ptr,
    M, N, K,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP_M * tiles_n) * GROUP_M
    rows = min(tiles_m - first_m, GROUP_M)
    place = pid % (GROUP_M * tiles_n)

    pid_m, pid_n = first_m + place % rows, place // rows
    offs_m = pid_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)
    mask_m, mask_n = offs_m < M, offs_n < N
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    a_step = tl.cast(stride_ak, tl.int64) * BLOCK_K
    b_step = tl.cast(stride_bk, tl.int64) * BLOCK_K
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    if a_descriptor is not None:
        # As in 07.5: with a path that skips the loop, Triton 3.6 waits for each wgmma.
        tl.assume(K > 0)
        for k in range(0, K, BLOCK_K):
            a = a_descriptor.load([pid_m * BLOCK_M, k])  # [BLOCK_M, BLOCK_K]
            b = b_descriptor.load([k, pid_n * BLOCK_N])  # [BLOCK_K, BLOCK_N]
            acc = tl.dot(a, b, acc)
    elif ALIGNED:
        for k in range(0, K, BLOCK_K):
            mask_k = offs_k < K - k
            a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
            b = tl.load(b_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
            acc = tl.dot(a, b, acc)
            a_ptrs += a_step
            b_ptrs += b_step
    else:
        # The compiler sends no such load to shared memory ahead of its use: so registers take the
        # next tiles while the tensor cores are at these. Past K the next ones are 0, and not used.
        mask_k = offs_k < K
        a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
        for k in range(BLOCK_K, K + BLOCK_K, BLOCK_K):
            a_ptrs += a_step
            b_ptrs += b_step
            mask_k = offs_k < K - k
            next_a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
            next_b = tl.load(b_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
            acc = tl.dot(a, b, acc)
            a, b = next_a, next_b
    c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(c_ptrs, acc, mask=mask_m[:, None] & mask_n[None, :])


def is_aligned(x: torch.Tensor) -> bool:
    """Whether the rows of x, or its columns, are contiguous and begin at multiples of 16 bytes."""
    long, short = x.stride() if x.stride(1) == 1 else x.stride()[::-1]
    return short == 1 and long * x.element_size() % 16 == 0 and x.data_ptr() % 16 == 0


def tma_can(x: torch.Tensor) -> bool:
    """TMA wants contiguous rows that begin at multiples of 16 bytes, and none on another."""
    if x.is_cuda and torch.cuda.get_device_capability(x.device)[0] < 9:
        return False  # it came with Hopper
    return x.stride(1) == 1 and x.stride(0) >= x.shape[1] and is_aligned(x)


def autotuned_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dim() != 2 or a.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"a must be 2-D and float16, bfloat16 or float32, not {a.dtype} {tuple(a.shape)}"
        )
    M, K = a.shape
    if b.dim() != 2 or b.shape[0] != K or b.dtype != a.dtype:
        raise ValueError(f"b must be {a.dtype} ({K}, N), not {b.dtype} {tuple(b.shape)}")
    N = b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    # Not tuned: 128 bytes are a whole line of the cache, and a stage then takes the same amount of
    # shared memory for every dtype.
    BLOCK_K = 128 // a.element_size()
    descriptors, aligned = (None, None), True
    if a.element_size() == 2:
        if M * N * K and tma_can(a) and tma_can(b):
            descriptors = [TensorDescriptor.from_tensor(x, [16, 16]) for x in (a, b)]
        elif K % 16 or not is_aligned(a) or not is_aligned(b):
            # Numbers in rows that are not aligned go through registers, as in 07.3.
            aligned, BLOCK_K = False, 32
    autotuned_matmul_kernel[
        lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)
    ](a, b, *descriptors, c, M, N, K, *a.stride(), *b.stride(), BLOCK_K=BLOCK_K, ALIGNED=aligned)
    return c
