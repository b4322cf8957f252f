"""11.4  int4 matmul: one good answer.

The two halves of each byte are interleaved into one tile, so that a step has one tl.dot. A half is
not converted: it goes into the last bits of a number whose other bits are those of 128 or 1024, and
the zero point too, so that their difference is the weight. The weights are the left factor, which a
tensor core takes from registers. With few rows of x many small programs load the weights; with many
rows each unpacked tile serves up to 256 of them.
"""

import torch
import triton
import triton.language as tl

GROUPS = (32, 64, 128, 256)


@triton.jit
def above(q, dtype: tl.constexpr):
    """128 + q in bfloat16, 1024 + q in float16: the last bits of such a number count ones."""
    base: tl.constexpr = 0x4300 if dtype == tl.bfloat16 else 0x6400
    return (q.to(tl.uint16) | base).to(dtype, bitcast=True)


@triton.jit
def int4_matmul_kernel(
    x_ptr, weight_ptr, scale_ptr, zero_ptr, out_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wn, stride_wk,
    stride_sn, stride_sg,
    stride_zn, stride_zg,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # Tiles that share weights are neighbours, so that all but the first find them in the L2 cache.
    pid, tiles_m = tl.program_id(0), tl.cdiv(M, BLOCK_M)
    offs_m = (pid % tiles_m).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = (pid // tiles_m).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)
    offs_j = tl.arange(0, BLOCK_K // 2).to(tl.int64)
    mask_m, mask_n = offs_m < M, offs_n < N
    x_ptrs = x_ptr + offs_k[:, None] * stride_xk + offs_m[None, :] * stride_xm
    weight_ptrs = weight_ptr + offs_n[:, None] * stride_wn + offs_j[None, :] * stride_wk
    x_step = tl.cast(stride_xk, tl.int64) * BLOCK_K
    weight_step = tl.cast(stride_wk, tl.int64) * (BLOCK_K // 2)
    # The weights are the left factor: a tensor core takes that one from registers, where they are.
    acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    tl.assume(K > 0)
    for k in range(0, K, BLOCK_K):  # BLOCK_K divides the group, and the group divides K
        x = tl.load(x_ptrs, mask=mask_m[None, :], other=0.0)  # [BLOCK_K, BLOCK_M]
        packed = tl.load(weight_ptrs, mask=mask_n[:, None], other=0)  # [BLOCK_N, BLOCK_K / 2]
        group = tl.cast(k // GROUP, tl.int64)
        scale_ptrs = scale_ptr + offs_n * stride_sn + group * stride_sg
        zero_ptrs = zero_ptr + offs_n * stride_zn + group * stride_zg
        scale = tl.load(scale_ptrs, mask=mask_n, other=0.0)[:, None]
        zero = tl.load(zero_ptrs, mask=mask_n, other=0)[:, None]
        # [BLOCK_N, BLOCK_K]
        q = tl.interleave(above(packed & 15, x.dtype), above(packed >> 4, x.dtype))
        # The difference is exact in both dtypes; the product with the scale rounds once.
        weight = (q - above(zero, x.dtype)) * scale
        acc = tl.dot(weight, x, acc)
        x_ptrs += x_step
        weight_ptrs += weight_step

    out_ptrs = out_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(out_ptrs, tl.trans(acc), mask=mask_m[:, None] & mask_n[None, :])


def shared_memory(device: torch.device) -> int:
    """How many bytes of shared memory a program can have; an H100's in the interpreter."""
    if device.type != "cuda":
        return 227 * 1024
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


def int4_matmul(
    x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor
) -> torch.Tensor:
    if x.dim() != 2 or x.dtype not in (torch.float16, torch.bfloat16) or x.shape[1] % 32:
        raise ValueError(
            "x must be float16 or bfloat16 (M, K) with K a multiple of 32, "
            f"not {x.dtype} {tuple(x.shape)}"
        )
    M, K = x.shape
    if weight.dim() != 2 or weight.dtype != torch.uint8 or weight.shape[1] != K // 2:
        raise ValueError(
            f"weight must be uint8 (N, {K // 2}), not {weight.dtype} {tuple(weight.shape)}"
        )
    N = weight.shape[0]
    groups = [(N, K // group) for group in GROUPS if K % group == 0]
    if tuple(scale.shape) not in groups or scale.dtype != x.dtype:
        raise ValueError(
            f"scale must be {x.dtype} of a shape in {groups}, "
            f"not {scale.dtype} {tuple(scale.shape)}"
        )
    if zero.shape != scale.shape or zero.dtype != torch.uint8:
        raise ValueError(
            f"zero must be uint8 {tuple(scale.shape)}, not {zero.dtype} {tuple(zero.shape)}"
        )
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    GROUP = K // scale.shape[1]
    BLOCK_M = min(max(16, triton.next_power_of_2(M)), 128 if M <= 256 else 256)
    # With few rows the weights are the limit, and many small programs load them. With many rows
    # each tile of weights is unpacked for as many of them as a program has registers for, in long
    # steps where shared memory holds several of these.
    is_roomy = shared_memory(x.device) >= 220 * 1024
    if BLOCK_M <= 32:
        BLOCK_N, BLOCK_K, num_warps, num_stages = 32, min(GROUP, 128), 2, 4
    elif BLOCK_M <= 128:
        longest = 128 if BLOCK_M == 128 and is_roomy else 64
        BLOCK_N, BLOCK_K, num_warps, num_stages = 64, min(GROUP, longest), 4, 4
    elif not is_roomy:
        BLOCK_N, BLOCK_K, num_warps, num_stages = 64, min(GROUP, 64), 8, 3
    else:
        BLOCK_N, BLOCK_K, num_warps, num_stages = 128, min(GROUP, 128), 8, 3
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    int4_matmul_kernel[grid](
        x, weight, scale, zero, out,
        M, N, K,
        *x.stride(), *weight.stride(), *scale.stride(), *zero.stride(),
        GROUP=GROUP, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
