# fault: the bias is loaded at the numbers of the rows
# cause: either the index or what it is compared with belongs to another dimension
# never: it also needs

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def linear_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr,
    M, N, K,
    stride_am, stride_ak,
    stride_bn, stride_bk,
    stride_bias,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * tiles_n
    first_m = pid // in_group * GROUP_M
    height = min(tiles_m - first_m, GROUP_M)
    pid_m = first_m + pid % in_group % height
    pid_n = pid % in_group // height
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        a = tl.load(
            x_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak,
            mask=(offs_m < M)[:, None] & (offs_k < K)[None, :],
            other=0.0,
        )
        b = tl.load(
            weight_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn,
            mask=(offs_k < K)[:, None] & (offs_n < N)[None, :],
            other=0.0,
        )
        acc = tl.dot(a, b, acc)
    bias = tl.load(bias_ptr + offs_m * stride_bias, mask=offs_m < M, other=0.0)
    acc += bias.to(tl.float32)[:, None]
    if ACTIVATION == "relu":
        acc = tl.maximum(acc, 0.0)
    elif ACTIVATION == "gelu":
        acc = acc / 2 * (1 + tl.erf(acc * 0.7071067811865476))
    out_ptrs = out_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(out_ptrs, acc, mask=(offs_m < M)[:, None] & (offs_n < N)[None, :])


def linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, activation: str | None
) -> torch.Tensor:
    (M, K), N = x.shape, weight.shape[0]
    out = torch.empty(M, N, dtype=x.dtype, device=x.device)
    BLOCK_M, BLOCK_N, BLOCK_K = 64, 64, 32
    linear_kernel[(triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)](
        x, weight, bias, out, M, N, K, *x.stride(), *weight.stride(), bias.stride(0),
        ACTIVATION=activation, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=8,
    )  # fmt: skip
    return out
