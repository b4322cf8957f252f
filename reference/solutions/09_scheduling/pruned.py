"""09.5  Pruned matmul: one good answer.

The first step keeps for each of 17 tiles the most stages that shared memory has room for. A model
then counts rounds of tiles, each as long as the slower of its multiplications and its loads, and
the 4 best are timed instead of 68. Descriptors load the tiles, as in 07.5, and each config sets
their blocks before it runs; large factors whose rows are not aligned are copied first.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# What an element from the L2 cache costs on an H200, in multiply-adds of the tensor cores.
LOAD = 64

# Multiplications from which on a copy of rows that are not aligned gains time.
LARGE = 2**26

# BLOCK_M, BLOCK_N and num_warps: large, small, flat and tall.
TILES = (
    (128, 256, 8), (256, 128, 8), (128, 128, 4), (64, 256, 4), (256, 64, 4),
    (64, 128, 4), (128, 64, 4), (64, 64, 4), (32, 64, 4), (64, 32, 4), (32, 32, 4),
    (16, 128, 4), (128, 16, 4), (16, 64, 4), (64, 16, 4), (16, 32, 4), (32, 16, 4),
)  # fmt: skip


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


def shared_memory(device: torch.device) -> int:
    """How many bytes of shared memory a program can have; an A100's in the interpreter."""
    if device.type != "cuda":
        return 163 * 1024
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


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


def set_blocks(args):
    """Give the descriptors, which were made before a config was chosen, its tiles."""
    if args["a_descriptor"] is not None:
        args["a_descriptor"].block_shape = [args["BLOCK_M"], args["BLOCK_K"]]
        args["b_descriptor"].block_shape = [args["BLOCK_K"], args["BLOCK_N"]]


def deepest_that_fit(configs, named_args, BLOCK_K, **_):
    """Keep for each tile the most stages for which there is shared memory."""
    a = named_args["a_ptr"]
    stages: dict[tuple, triton.Config] = {}
    for config in configs:
        BLOCK_M, BLOCK_N = config.kwargs["BLOCK_M"], config.kwargs["BLOCK_N"]
        # One stage less on an A100: there the tiles that tl.dot reads are in registers.
        needed = config.num_stages * (BLOCK_M + BLOCK_N) * BLOCK_K * a.element_size()
        if needed <= shared_memory(a.device):
            best = stages.get((BLOCK_M, BLOCK_N), config)
            stages[BLOCK_M, BLOCK_N] = max(best, config, key=lambda config: config.num_stages)
    return list(stages.values())


def time(a_ptr, M, N, BLOCK_M, BLOCK_N, **_):
    """In multiply-adds of one multiprocessor, for each step along K."""
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    rounds = triton.cdiv(tiles, multiprocessors(a_ptr.device))
    return rounds * max(BLOCK_M * BLOCK_N, LOAD * (BLOCK_M + BLOCK_N))


@triton.autotune(
    configs=[
        triton.Config(
            {"BLOCK_M": BLOCK_M, "BLOCK_N": BLOCK_N}, num_warps, num_stages, pre_hook=set_blocks
        )
        for BLOCK_M, BLOCK_N, num_warps in TILES
        for num_stages in (2, 3, 4, 6)
    ],
    key=["M", "N", "K"],
    prune_configs_by={"early_config_prune": deepest_that_fit, "perf_model": time, "top_k": 4},
)
@triton.jit
def pruned_matmul_kernel(
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
    # As in 07.5: with a path that skips the loop, Triton 3.6 waits for each wgmma. Factors loaded
    # 16 bytes at a time take 7 % longer without that path all the same (4096 cubed on an H100).
    if not ALIGNED:
        tl.assume(K > 0)
    for k in range(0, K, BLOCK_K):
        if a_descriptor is None:
            mask_k = offs_k < K - k
            a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
            b = tl.load(b_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
        else:
            a = a_descriptor.load([pid_m * BLOCK_M, k])  # [BLOCK_M, BLOCK_K]
            b = b_descriptor.load([k, pid_n * BLOCK_N])  # [BLOCK_K, BLOCK_N]
        acc = tl.dot(a, b, acc)
        a_ptrs += a_step
        b_ptrs += b_step
    c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(c_ptrs, acc, mask=mask_m[:, None] & mask_n[None, :])


def has_tma(device: torch.device) -> bool:
    """Whether there is a tensor memory accelerator: it came with Hopper."""
    return device.type != "cuda" or torch.cuda.get_device_capability(device)[0] >= 9


def has_rows(x: torch.Tensor) -> bool:
    """Whether the rows of x are contiguous, and none lies on another."""
    return x.stride(1) == 1 and x.stride(0) >= x.shape[1]


def is_aligned(x: torch.Tensor) -> bool:
    """Whether the rows of x begin at multiples of 16 bytes."""
    return x.data_ptr() % 16 == 0 and x.stride(0) * x.element_size() % 16 == 0


def realigned(x: torch.Tensor) -> torch.Tensor:
    """x, or a copy of it if its rows begin at no multiples of 16 bytes.

    Those of the copy begin at lines of the cache, of 128 bytes.
    """
    if is_aligned(x):
        return x
    M, N = x.shape
    y = torch.empty(M, triton.cdiv(N, 64) * 64, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 2) * triton.cdiv(N, 1024),)
    realign_kernel[grid](x, y, M, N, x.stride(0), y.stride(0), BLOCK_M=2, BLOCK_N=1024, num_warps=4)
    return y[:, :N]


def pruned_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dim() != 2 or a.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"a must be 2-D and float16, bfloat16 or float32, not {a.dtype} {tuple(a.shape)}"
        )
    M, K = a.shape
    if b.dim() != 2 or b.shape[0] != K or b.dtype != a.dtype:
        raise ValueError(f"b must be {a.dtype} ({K}, N), not {b.dtype} {tuple(b.shape)}")
    N = b.shape[1]
    if 0 in (M, N, K):
        return torch.zeros(M, N, dtype=a.dtype, device=a.device)
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    # Not tuned: 128 bytes are a whole line of the cache, and a stage then takes the same amount of
    # shared memory for every dtype.
    BLOCK_K = 128 // a.element_size()
    descriptors = None, None
    if has_tma(a.device) and a.element_size() == 2 and has_rows(a) and has_rows(b):
        # With 16 rows that takes 3 % more time, and with 128 a third less (8191 x 8191, H100).
        if M * N * K >= LARGE and min(M, N) >= 128:
            a, b = realigned(a), realigned(b)
        if is_aligned(a) and is_aligned(b):
            descriptors = [TensorDescriptor.from_tensor(x, [16, 16]) for x in (a, b)]
    pruned_matmul_kernel[
        lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)
    ](
        a, b, *descriptors, c, M, N, K, *a.stride(), *b.stride(),
        BLOCK_K=BLOCK_K, GROUP_M=16, ALIGNED=N % 16 == 0 and K % 16 == 0,
    )  # fmt: skip
    return c
