# fault: the activation is applied to the partial sum in every step
# cause: (activation|relu|gelu).*(every step|each step|in the loop|partial)
import torch
import triton
import triton.language as tl


@triton.jit
def activate(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "relu":
        return tl.maximum(x, 0.0)
    if ACTIVATION == "gelu":
        return 0.5 * x * (1.0 + tl.math.erf(x * 0.7071067811865476))
    return x


@triton.jit
def linear_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wn, stride_wk,
    stride_bias,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    bias = tl.load(bias_ptr + offs_n * stride_bias, mask=offs_n < N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk
        weight_ptrs = weight_ptr + offs_n[:, None] * stride_wn + offs_k[None, :] * stride_wk
        x = tl.load(x_ptrs, mask=(offs_m < M)[:, None] & (offs_k < K)[None, :], other=0.0)
        weight = tl.load(weight_ptrs, mask=(offs_n < N)[:, None] & (offs_k < K)[None, :], other=0.0)
        acc = activate(acc + tl.dot(x, weight.T), ACTIVATION)
    out = acc + bias[None, :]
    out_ptrs = out_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(out_ptrs, out, mask=(offs_m < M)[:, None] & (offs_n < N)[None, :])


def linear(x, weight, bias, activation):
    (M, K), N = x.shape, weight.shape[0]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    linear_kernel[(triton.cdiv(M, 128), triton.cdiv(N, 128))](
        x, weight, bias, out, M, N, K, *x.stride(), *weight.stride(), bias.stride(0),
        ACTIVATION=activation, BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, num_warps=8,
    )  # fmt: skip
    return out
