"""12.4  Layer norm and linear layer: one good answer.

A small kernel finds the statistics of the rows first, so that the product goes over x once for each
column of tiles and normalizes in registers, just before tl.dot. In the last tile the norm's weight
and bias are 0 past K, and so is the normalized tile. Large products get aligned rows, by a copy if
need be, and load them by descriptors, so that the threads are left to normalize. Tiles are 128 x
256 where 16-bit rows are aligned, and 128 x 128 elsewhere.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# Multiplications from which on descriptors, and a copy of rows that are not aligned, gain time.
LARGE = 2**26


@triton.jit
def row_statistics_kernel(
    x_ptr, mean_ptr, rstd_ptr,
    K, eps,
    stride_xm, stride_xk,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    offs_k = tl.arange(0, BLOCK).to(tl.int64)
    mean, squares = 0.0, 0.0
    for start in range(0, K, BLOCK):
        mask = offs_k < K - start
        x_ptrs = x_ptr + row * stride_xm + (start + offs_k) * stride_xk
        x = tl.load(x_ptrs, mask=mask, other=0.0).to(tl.float32)
        here = tl.minimum(K - start, BLOCK)
        mean_here = tl.sum(x) / here
        centred = tl.where(mask, x - mean_here, 0.0)
        # Chan's formula: the distance of the means counts too.
        delta, share = mean_here - mean, here / (start + here)
        squares += tl.sum(centred * centred) + delta * delta * start * share
        mean += delta * share
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, 1.0 / tl.sqrt_rn(squares / K + eps))


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
def layer_norm_linear_kernel(
    x_ptr, x_descriptor, norm_weight_ptr, norm_bias_ptr, weight_ptr, weight_descriptor,
    bias_ptr, y_ptr, mean_ptr, rstd_ptr,
    M, N, K, norms,
    stride_xm, stride_xk, stride_nw, stride_nb, stride_wn, stride_wk, stride_bias,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
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
    mean = tl.load(mean_ptr + offs_m, mask=mask_m, other=0.0)[:, None]
    rstd = tl.load(rstd_ptr + offs_m, mask=mask_m, other=0.0)[:, None]
    # With it two multiply-adds normalize a number.
    shift = mean * rstd
    x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk
    weight_ptrs = weight_ptr + offs_k[:, None] * stride_wk + offs_n[None, :] * stride_wn
    norm_weight_ptrs = norm_weight_ptr + offs_k * stride_nw
    norm_bias_ptrs = norm_bias_ptr + offs_k * stride_nb
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # Whole tiles first, then what is left. Only there the norm has a mask, with which its numbers
    # come one by one where 16 does not divide K, and the tensor cores wait for them.
    whole = norms // BLOCK_K * BLOCK_K
    for LAST in tl.static_range(2):
        for k in range(whole if LAST else 0, norms if LAST else whole, BLOCK_K):
            if x_descriptor is None:
                mask_k = offs_k < K - k
                x = tl.load(x_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
                weight = tl.load(weight_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
            else:
                # Past the edges both are 0.
                x = x_descriptor.load([pid_m * BLOCK_M, k])
                weight = weight_descriptor.load([pid_n * BLOCK_N, k]).T
            if LAST:
                # Past the end both are 0, and so is the normalized tile, although x - mean is not.
                mask_norm = offs_k < norms - k
                norm_weight = tl.load(norm_weight_ptrs, mask=mask_norm, other=0.0).to(tl.float32)
                norm_bias = tl.load(norm_bias_ptrs, mask=mask_norm, other=0.0).to(tl.float32)
            else:
                norm_weight = tl.load(norm_weight_ptrs).to(tl.float32)
                norm_bias = tl.load(norm_bias_ptrs).to(tl.float32)
            normed = (x.to(tl.float32) * rstd - shift) * norm_weight[None, :] + norm_bias[None, :]
            acc = tl.dot(normed.to(weight.dtype), weight, acc)
            x_ptrs += tl.cast(stride_xk, tl.int64) * BLOCK_K
            weight_ptrs += tl.cast(stride_wk, tl.int64) * BLOCK_K
            norm_weight_ptrs += tl.cast(stride_nw, tl.int64) * BLOCK_K
            norm_bias_ptrs += tl.cast(stride_nb, tl.int64) * BLOCK_K

    bias = tl.load(bias_ptr + offs_n * stride_bias, mask=mask_n, other=0.0).to(tl.float32)
    y_ptrs = y_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(y_ptrs, acc + bias[None, :], mask=mask_m[:, None] & mask_n[None, :])


def check(
    x: torch.Tensor,
    norm_weight: torch.Tensor,
    norm_bias: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
) -> None:
    """Raises ValueError that names the first argument that does not fit."""
    if x.dim() != 2 or x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"x must be 2-D and float16, bfloat16 or float32, not {x.dtype} {tuple(x.shape)}"
        )
    K = x.shape[1]
    if weight.dim() != 2 or weight.shape[1] != K or weight.dtype != x.dtype:
        raise ValueError(
            f"weight must be {x.dtype} (N, {K}), not {weight.dtype} {tuple(weight.shape)}"
        )
    for name, tensor, size in (
        ("norm_weight", norm_weight, K),
        ("norm_bias", norm_bias, K),
        ("bias", bias, weight.shape[0]),
    ):
        if tensor.shape != (size,) or tensor.dtype != x.dtype:
            raise ValueError(
                f"{name} must be {x.dtype} {(size,)}, not {tensor.dtype} {tuple(tensor.shape)}"
            )


def padded(x: torch.Tensor) -> torch.Tensor:
    """A copy of x, with columns of 0 up to a multiple of 64: whole lines of the cache."""
    M, N = x.shape
    y = torch.empty(M, triton.cdiv(N, 64) * 64, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 4) * triton.cdiv(y.shape[1], 1024),)
    pad_kernel[grid](x, y, M, N, *x.stride(), y.stride(0), BLOCK_M=4, BLOCK_N=1024, num_warps=8)
    return y


def shared_memory(device: torch.device) -> int:
    """How many bytes of shared memory a program can have; an H100's in the interpreter."""
    if device.type != "cuda":
        return 227 * 1024
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


def has_tma(device: torch.device) -> bool:
    """Whether there is a tensor memory accelerator, and shared memory for three stages of tiles."""
    if device.type == "cuda" and torch.cuda.get_device_properties(device).major < 9:
        return False
    return shared_memory(device) >= 150 * 1024


def has_aligned_rows(x: torch.Tensor) -> bool:
    """Whether rows are contiguous, begin at multiples of 16 bytes, and none lies on another."""
    aligned = x.data_ptr() % 16 == 0 and x.stride(0) * x.element_size() % 16 == 0
    return aligned and x.stride(1) == 1 and x.stride(0) >= x.shape[1]


def layer_norm_linear(
    x: torch.Tensor,
    norm_weight: torch.Tensor,
    norm_bias: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    eps: float = 1e-5,
) -> torch.Tensor:
    check(x, norm_weight, norm_bias, weight, bias)
    (M, K), N = x.shape, weight.shape[0]
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    mean = torch.empty(M, dtype=torch.float32, device=x.device)
    rstd = torch.empty(M, dtype=torch.float32, device=x.device)
    BLOCK = min(triton.next_power_of_2(K), 8192)
    row_statistics_kernel[(M,)](
        x, mean, rstd, K, eps, *x.stride(), BLOCK=BLOCK, num_warps=8 if BLOCK > 2048 else 4
    )
    norms = K
    large = x.element_size() == 2 and M * N * K >= LARGE
    if large and K % 16:
        x, weight = padded(x), padded(weight)
        K = x.shape[1]
    # Rows that begin at no multiple of 16 bytes come element by element, through registers.
    wide = x.element_size() == 2 and K % 8 == 0 and shared_memory(x.device) >= 150 * 1024
    BLOCK_M, BLOCK_N = 128, 256 if wide else 128
    BLOCK_K = 128 // x.element_size()  # 128 bytes: a whole line of the cache
    descriptors = None, None
    if large and has_tma(x.device) and has_aligned_rows(x) and has_aligned_rows(weight):
        descriptors = (
            TensorDescriptor.from_tensor(x, [BLOCK_M, BLOCK_K]),
            TensorDescriptor.from_tensor(weight, [BLOCK_N, BLOCK_K]),
        )
    layer_norm_linear_kernel[(triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)](
        x, descriptors[0], norm_weight, norm_bias, weight, descriptors[1], bias, y, mean, rstd,
        M, N, K, norms,
        *x.stride(), norm_weight.stride(0), norm_bias.stride(0), *weight.stride(), bias.stride(0),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=16, num_warps=8, num_stages=3,
    )  # fmt: skip
    return y
