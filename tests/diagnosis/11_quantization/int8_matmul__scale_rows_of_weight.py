# fault: weight_scale is loaded by the rows of out
# cause: weight_scale.*(offs_m|out of bounds)|offs_m
import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    x_ptr, weight_ptr, x_scale_ptr, weight_scale_ptr, out_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wn, stride_wk,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
):  # fmt: skip
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    offs_m = (pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)) % M
    offs_n = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)) % N
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk
    w_ptrs = weight_ptr + offs_n[:, None] * stride_wn + offs_k[None, :] * stride_wk
    acc = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.int32)
    for k in range(tl.cdiv(K, BLOCK_SIZE_K)):
        mask = offs_k[None, :] < K - k * BLOCK_SIZE_K
        x = tl.load(x_ptrs, mask=mask, other=0)
        w = tl.load(w_ptrs, mask=mask, other=0)
        acc += tl.dot(x, tl.trans(w))
        x_ptrs += BLOCK_SIZE_K * stride_xk
        w_ptrs += BLOCK_SIZE_K * stride_wk
    x_scale = tl.load(x_scale_ptr + offs_m)
    w_scale = tl.load(weight_scale_ptr + offs_m)
    out = acc.to(tl.float32) * (x_scale[:, None] * w_scale[None, :])
    offs_om = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_on = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    out_ptrs = out_ptr + offs_om[:, None] * N + offs_on[None, :]
    tl.store(out_ptrs, out, mask=(offs_om[:, None] < M) & (offs_on[None, :] < N))


def int8_matmul(x, weight, x_scale, weight_scale, out_dtype=torch.bfloat16):
    (M, K), N = x.shape, weight.shape[0]
    out = torch.empty((M, N), dtype=out_dtype, device=x.device)
    grid = (triton.cdiv(M, 128), triton.cdiv(N, 128))
    matmul_kernel[grid](
        x, weight, x_scale, weight_scale, out, M, N, K, *x.stride(), *weight.stride(),
        BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64, num_warps=8, num_stages=4,
    )  # fmt: skip
    return out
