"""07.5  Linear layer: one good answer.

Both factors have K contiguous, which the tensor memory accelerator puts where the tensor cores want
it: so large products load by descriptors, and rows that begin at no multiple of 16 bytes are copied
first. Where the rows of out are aligned, there is a program for each multiprocessor, whose loads
for the next tile begin while it stores this one. Bias and activation follow in registers; relu
compares, since a maximum would turn NaN into 0.
"""

from __future__ import annotations

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
def place_of_tile(number, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """In which row and column of tiles a tile lies, in groups of rows as in 07.3."""
    first_m = number // (GROUP_M * tiles_n) * GROUP_M
    rows = min(tiles_m - first_m, GROUP_M)
    place = number % (GROUP_M * tiles_n)
    return first_m + place % rows, place // rows


@triton.jit
def epilogue(acc, bias_ptr, offs_n, mask_n, stride_bias, ACTIVATION: tl.constexpr):
    bias = tl.load(bias_ptr + offs_n * stride_bias, mask=mask_n, other=0.0)
    acc += bias.to(tl.float32)[None, :]
    if ACTIVATION == "relu":
        # Not tl.maximum, which turns NaN into 0.
        acc = tl.where(acc < 0, 0.0, acc)
    if ACTIVATION == "gelu":
        acc = 0.5 * acc * (1.0 + tl.erf(acc * 0.7071067811865476))
    return acc


@triton.jit
def linear_kernel(
    x_ptr, weight_ptr, x_descriptor, weight_descriptor, bias_ptr, out_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wn, stride_wk,
    stride_bias,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    pid_m, pid_n = place_of_tile(pid, tiles_m, tiles_n, GROUP_M)
    offs_m = pid_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)
    mask_m, mask_n = offs_m < M, offs_n < N
    x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk
    # The tile of weight.T: its rows are weight's columns. Only the strides change places.
    weight_ptrs = weight_ptr + offs_k[:, None] * stride_wk + offs_n[None, :] * stride_wn
    x_step = tl.cast(stride_xk, tl.int64) * BLOCK_K
    weight_step = tl.cast(stride_wk, tl.int64) * BLOCK_K
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # Otherwise there is a path that skips the loop, on which no wgmma sets acc, and Triton 3.6
    # therefore waits for each wgmma before it starts the next (sm_90; 3.7 and 3.9 do not).
    tl.assume(K > 0)
    for k in range(0, K, BLOCK_K):
        if x_descriptor is None:
            mask_k = offs_k < K - k
            x = tl.load(x_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
            weight = tl.load(weight_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
        else:
            # Past the edges both are 0.
            x = x_descriptor.load([pid_m * BLOCK_M, k])
            weight = weight_descriptor.load([pid_n * BLOCK_N, k]).T
        acc = tl.dot(x, weight, acc)
        x_ptrs += x_step
        weight_ptrs += weight_step

    acc = epilogue(acc, bias_ptr, offs_n, mask_n, stride_bias, ACTIVATION)
    out_ptrs = out_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(out_ptrs, acc, mask=mask_m[:, None] & mask_n[None, :])


@triton.jit
def persistent_kernel(
    x_descriptor, weight_descriptor, out_descriptor, bias_ptr,
    M, N, K,
    stride_bias,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        pid_m, pid_n = place_of_tile(tile, tiles_m, tiles_n, GROUP_M)
        m, n = pid_m * BLOCK_M, pid_n * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        tl.assume(K > 0)  # As above.
        for k in range(0, K, BLOCK_K):
            x, weight = x_descriptor.load([m, k]), weight_descriptor.load([n, k])
            acc = tl.dot(x, weight.T, acc)

        offs_n = tl.cast(n, tl.int64) + tl.arange(0, BLOCK_N)
        acc = epilogue(acc, bias_ptr, offs_n, offs_n < N, stride_bias, ACTIVATION)
        # Half of the columns at a time, which leaves shared memory for four stages.
        halves = acc.to(out_descriptor.dtype).reshape(BLOCK_M, 2, BLOCK_N // 2).permute(0, 2, 1)
        left, right = halves.split()
        out_descriptor.store([m, n], left)
        out_descriptor.store([m, n + BLOCK_N // 2], right)


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
    """Whether there are TMA, and shared memory for four stages of tiles and half a tile of out."""
    if device.type == "cuda" and torch.cuda.get_device_properties(device).major < 9:
        return False
    return shared_memory(device) >= 225 * 1024


def has_rows(x: torch.Tensor) -> bool:
    """Whether the rows of x are contiguous, and none lies on another."""
    return x.stride(1) == 1 and x.stride(0) >= x.shape[1]


def realigned(x: torch.Tensor) -> torch.Tensor:
    """x, or a copy of it if its rows begin at no multiples of 16 bytes.

    Those of the copy begin at lines of the cache, of 128 bytes.
    """
    if x.data_ptr() % 16 == 0 and x.stride(0) * x.element_size() % 16 == 0:
        return x
    M, N = x.shape
    y = torch.empty(M, triton.cdiv(N, 64) * 64, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 4) * triton.cdiv(N, 1024),)
    realign_kernel[grid](x, y, M, N, x.stride(0), y.stride(0), BLOCK_M=4, BLOCK_N=1024, num_warps=8)
    return y[:, :N]


def linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, activation: str | None
) -> torch.Tensor:
    if x.dim() != 2 or x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"x must be 2-D and float16, bfloat16 or float32, not {x.dtype} {tuple(x.shape)}"
        )
    M, K = x.shape
    if weight.dim() != 2 or weight.shape[1] != K or weight.dtype != x.dtype:
        raise ValueError(
            f"weight must be {x.dtype} (N, {K}), not {weight.dtype} {tuple(weight.shape)}"
        )
    N = weight.shape[0]
    if bias.shape != (N,) or bias.dtype != x.dtype:
        raise ValueError(f"bias must be {x.dtype} {(N,)}, not {bias.dtype} {tuple(bias.shape)}")
    if activation not in (None, "relu", "gelu"):
        raise ValueError(f'activation must be None, "relu" or "gelu", not {activation!r}')
    out = torch.empty(M, N, dtype=x.dtype, device=x.device)
    # Loads of 16 bytes go straight to shared memory. Where 16 does not divide K, numbers of 2 bytes
    # go through registers one by one, and beside a tile of 256 columns there are too few of them.
    BLOCK_M, BLOCK_N = 128, 128 if K % 16 and x.element_size() == 2 else 256
    BLOCK_K = 128 // x.element_size()  # 128 bytes: a whole line of the cache
    descriptors = None, None
    if (
        has_tma(x.device)
        and x.element_size() == 2
        and M * N * K >= LARGE
        and has_rows(x)
        and has_rows(weight)
    ):
        BLOCK_N = 256
        descriptors = (
            TensorDescriptor.from_tensor(realigned(x), [BLOCK_M, BLOCK_K]),
            TensorDescriptor.from_tensor(realigned(weight), [BLOCK_N, BLOCK_K]),
        )
        if N % 8 == 0:
            tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
            persistent_kernel[(min(tiles, multiprocessors(x.device)),)](
                *descriptors, TensorDescriptor.from_tensor(out, [BLOCK_M, BLOCK_N // 2]), bias,
                M, N, K, bias.stride(0),
                ACTIVATION=activation,
                BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=16,
                num_warps=8, num_stages=4,
            )  # fmt: skip
            return out
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    linear_kernel[grid](
        x, weight, *descriptors, bias, out, M, N, K, *x.stride(), *weight.stride(), bias.stride(0),
        ACTIVATION=activation,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=16, num_warps=8,
        num_stages=3 if descriptors[0] is None else 4,
    )  # fmt: skip
    return out
