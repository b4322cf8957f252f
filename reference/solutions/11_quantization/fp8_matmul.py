"""11.5  fp8 matmul: one good answer.

Where rows begin at multiples of 16 bytes, the tensor memory accelerator loads both tiles, through
descriptors; large products get such rows by a copy. A step is one block of scales along K, and a
tile lies within one block of the weight's rows, so that a step needs one scale of the weight and
one for each row of x. Tiles are no larger than 128 x 128, since the sums of a step and of all steps
are in registers.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# Multiplications from which on a copy of rows that are not aligned gains time.
LARGE = 2**26
BLOCK = 128  # the elements along K, and the rows of weight, that share a scale


@triton.jit
def pad_kernel(
    x_ptr, y_ptr,
    M, N, stride_xm, stride_xn, stride_ym,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """y = x, and 0 in the columns that y has more."""
    pid, tiles_n = tl.program_id(0).to(tl.int64), tl.cdiv(stride_ym, BLOCK_N)
    rows = (pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    cols = (pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    x_ptrs = x_ptr + rows * stride_xm + cols * stride_xn
    x = tl.load(x_ptrs, mask=(rows < M) & (cols < N), other=0.0)
    tl.store(y_ptr + rows * stride_ym + cols, x, mask=(rows < M) & (cols < stride_ym))


@triton.jit
def fp8_matmul_kernel(
    x_ptr, weight_ptr, x_descriptor, weight_descriptor, x_scale_ptr, weight_scale_ptr, out_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wn, stride_wk,
    stride_xsm, stride_xsb,
    stride_wsn, stride_wsb,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP_M * tiles_n) * GROUP_M
    rows = min(tiles_m - first_m, GROUP_M)
    place = pid % (GROUP_M * tiles_n)

    first_n = (place // rows).to(tl.int64) * BLOCK_N
    offs_m = (first_m + place % rows).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = first_n + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)
    mask_m, mask_n = offs_m < M, offs_n < N
    x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk
    weight_ptrs = weight_ptr + offs_k[:, None] * stride_wk + offs_n[None, :] * stride_wn
    x_step = tl.cast(stride_xk, tl.int64) * BLOCK_K
    weight_step = tl.cast(stride_wk, tl.int64) * BLOCK_K
    # BLOCK_K is the block of K, and BLOCK_N divides that of N: one scale of weight a step.
    x_scale_ptrs = x_scale_ptr + offs_m * stride_xsm
    weight_scale_ptr += first_n // BLOCK_K * stride_wsn
    x_scale = tl.load(x_scale_ptrs, mask=mask_m & (K > 0), other=0.0)
    weight_scale = tl.load(weight_scale_ptr, mask=K > 0, other=0.0)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        mask_k = offs_k < K - k
        if x_descriptor is None:
            x = tl.load(x_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
            weight = tl.load(weight_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
        else:
            x = x_descriptor.load([(first_m + place % rows) * BLOCK_M, k])
            weight = weight_descriptor.load([place // rows * BLOCK_N, k]).T
        # The scales of the next block are loaded while the tensor cores are at this one.
        x_scale_ptrs += stride_xsb
        weight_scale_ptr += stride_wsb
        more = k + BLOCK_K < K
        next_x_scale = tl.load(x_scale_ptrs, mask=mask_m & more, other=0.0)
        next_weight_scale = tl.load(weight_scale_ptr, mask=more, other=0.0)
        acc += tl.dot(x, weight) * (x_scale * weight_scale)[:, None]
        x_scale, weight_scale = next_x_scale, next_weight_scale
        x_ptrs += x_step
        weight_ptrs += weight_step

    out_ptrs = out_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(out_ptrs, acc, mask=mask_m[:, None] & mask_n[None, :])


def padded(x: torch.Tensor) -> torch.Tensor:
    """A copy of x, with columns of 0 up to a multiple of 128: whole lines of the cache."""
    M, N = x.shape
    y = torch.empty(M, triton.cdiv(N, 128) * 128, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 4) * triton.cdiv(y.shape[1], 1024),)
    pad_kernel[grid](x, y, M, N, *x.stride(), y.stride(0), BLOCK_M=4, BLOCK_N=1024, num_warps=8)
    return y


def tma_can(x: torch.Tensor) -> bool:
    """Whether the tensor memory accelerator can load tiles of x: rows begin at 16 bytes."""
    aligned = x.data_ptr() % 16 == 0 and x.stride(0) % 16 == 0
    return aligned and x.stride(0) > 0 and x.stride(1) == 1


def shared_memory(device: torch.device) -> int:
    """How many bytes of shared memory a program can have; an H100's in the interpreter."""
    if device.type != "cuda":
        return 227 * 1024
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


def fp8_matmul(
    x: torch.Tensor,
    weight: torch.Tensor,
    x_scale: torch.Tensor,
    weight_scale: torch.Tensor,
    out_dtype: torch.dtype = torch.bfloat16,
) -> torch.Tensor:
    if x.dim() != 2 or x.dtype != torch.float8_e4m3fn:
        raise ValueError(f"x must be 2-D float8_e4m3fn, not {x.dtype} {tuple(x.shape)}")
    M, K = x.shape
    if weight.dim() != 2 or weight.dtype != x.dtype or weight.shape[1] != K:
        raise ValueError(
            f"weight must be {x.dtype} (N, {K}), not {weight.dtype} {tuple(weight.shape)}"
        )
    N = weight.shape[0]
    blocks = triton.cdiv(K, BLOCK)
    for name, scale, shape in (
        ("x_scale", x_scale, (M, blocks)),
        ("weight_scale", weight_scale, (triton.cdiv(N, BLOCK), blocks)),
    ):
        if scale.shape != shape or scale.dtype != torch.float32:
            raise ValueError(
                f"{name} must be float32 {shape}, not {scale.dtype} {tuple(scale.shape)}"
            )
    if out_dtype not in (torch.bfloat16, torch.float16, torch.float32):
        raise ValueError(f"out_dtype must be bfloat16, float16 or float32, not {out_dtype}")
    out = torch.empty((M, N), dtype=out_dtype, device=x.device)
    if K % 16 and M * N * K >= LARGE:
        x, weight = padded(x), padded(weight)
        K = x.shape[1]
    # Two tiles of sums, that of this block and that of all, are what a program has registers for.
    # Rows that begin at no multiple of 16 bytes are loaded byte by byte, through registers too.
    # Large products have tiles enough for 128 rows each, four stages of which take 128 KiB.
    many = M * N > 2048 * 2048 and K % 16 == 0 and shared_memory(x.device) >= 150 * 1024
    BLOCK_M = min(128 if many else 64, max(16, triton.next_power_of_2(M)))
    BLOCK_N = 128 if M > 64 and K % 16 == 0 else 64
    num_warps, num_stages = (8, 4) if BLOCK_M == 128 else (4, 3)
    descriptors = None, None
    if tma_can(x) and tma_can(weight):
        descriptors = (
            TensorDescriptor.from_tensor(x, [BLOCK_M, BLOCK]),
            TensorDescriptor.from_tensor(weight, [BLOCK_N, BLOCK]),
        )
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    fp8_matmul_kernel[grid](
        x, weight, *descriptors, x_scale, weight_scale, out,
        M, N, K,
        *x.stride(), *weight.stride(), *x_scale.stride(), *weight_scale.stride(),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK, GROUP_M=16,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
