# fault: with groups of 32 a step of 64 takes the scale of its first group
# cause: each 2 neighbours along dimension 1 of scale and zero
# never: leaves out dimension

import torch
import triton
import triton.language as tl


@triton.jit
def int4_matmul_kernel(
    x_ptr, weight_ptr, scale_ptr, zero_ptr, out_ptr,
    M, N, K,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    offs_byte = tl.arange(0, BLOCK_K // 2)
    mask_m = offs_m < M
    mask_n = offs_n < N
    groups = K // GROUP
    bytes_per_row = K // 2

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        x = tl.load(
            x_ptr + offs_m[:, None] * K + (k + offs_k)[None, :],
            mask=mask_m[:, None] & (k + offs_k < K)[None, :],
            other=0.0,
        )
        byte = tl.load(
            weight_ptr + offs_n[:, None] * bytes_per_row + (k // 2 + offs_byte)[None, :],
            mask=mask_n[:, None] & (k // 2 + offs_byte < bytes_per_row)[None, :],
            other=0,
        )
        group = k // GROUP
        scale = tl.load(scale_ptr + offs_n * groups + group, mask=mask_n, other=0.0)
        zero = tl.load(zero_ptr + offs_n * groups + group, mask=mask_n, other=0)

        q = tl.interleave(byte & 15, byte >> 4)  # (BLOCK_N, BLOCK_K)
        w = (q.to(tl.float32) - zero.to(tl.float32)[:, None]) * scale.to(tl.float32)[:, None]
        acc = tl.dot(x, tl.trans(w.to(x.dtype)), acc)

    tl.store(
        out_ptr + offs_m[:, None] * N + offs_n[None, :],
        acc.to(out_ptr.dtype.element_ty),
        mask=mask_m[:, None] & mask_n[None, :],
    )


def int4_matmul(
    x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor
) -> torch.Tensor:
    M, K = x.shape
    N = weight.shape[0]
    group = K // scale.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK_M = 16 if M <= 16 else 32 if M <= 32 else 64
    BLOCK_N = 64
    BLOCK_K = 64
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    int4_matmul_kernel[grid](
        x, weight, scale, zero, out,
        M, N, K,
        GROUP=group,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K,
        num_warps=4, num_stages=4,
    )  # fmt: skip
    return out
