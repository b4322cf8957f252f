# fault: the even columns of x meet the high four bits
# cause: high four bits
import torch
import triton
import triton.language as tl


@triton.jit
def int4_matmul_kernel(
    x_ptr, weight_ptr, scale_ptr, zero_ptr, out_ptr, M, N, K, GROUP: tl.constexpr,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0) * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_n = tl.program_id(1) * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    offs_j = tl.arange(0, BLOCK_SIZE_K // 2)
    mask_m = offs_m[:, None] < M
    mask_n = offs_n < N
    acc = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_SIZE_K):
        even_ptrs = x_ptr + offs_m[:, None] * K + k + 2 * offs_j[None, :]
        even = tl.load(even_ptrs, mask=mask_m, other=0.0)
        odd = tl.load(even_ptrs + 1, mask=mask_m, other=0.0)
        w_ptrs = weight_ptr + offs_n[None, :] * (K // 2) + k // 2 + offs_j[:, None]
        w = tl.load(w_ptrs, mask=mask_n[None, :], other=0)
        offs_s = offs_n * (K // GROUP) + k // GROUP
        scale = tl.load(scale_ptr + offs_s, mask=mask_n, other=0.0).to(tl.float32)
        zero = tl.load(zero_ptr + offs_s, mask=mask_n, other=0).to(tl.int32)
        low = ((w & 0xF).to(tl.int32) - zero[None, :]).to(even.dtype)
        high = ((w >> 4).to(tl.int32) - zero[None, :]).to(even.dtype)
        total = tl.dot(even, high) + tl.dot(odd, low)
        acc += total * scale[None, :]
    out_ptrs = out_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(out_ptrs, acc, mask=mask_m & mask_n[None, :])


def int4_matmul(x, weight, scale, zero):
    (M, K), N = x.shape, weight.shape[0]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    GROUP = K // scale.shape[1]
    BLOCK_M = 16 if M <= 16 else 32
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, 64))
    int4_matmul_kernel[grid](
        x, weight, scale, zero, out, M, N, K, GROUP=GROUP,
        BLOCK_SIZE_M=BLOCK_M, BLOCK_SIZE_N=64, BLOCK_SIZE_K=min(GROUP, 128), num_stages=4,
    )  # fmt: skip
    return out
