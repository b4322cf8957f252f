# fault: a and x are multiplied in their own dtype, float16, before the product is widened
# cause: acc \+= a \* x.*, in line \d+, rounds to b?float16
import torch
import triton
import triton.language as tl


@triton.jit
def matvec_kernel(
    a_ptr, x_ptr, y_ptr,
    M, K,
    stride_am, stride_ak,
    stride_x,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    acc = tl.zeros((BLOCK_M, BLOCK_K), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        offs_k = start + tl.arange(0, BLOCK_K)
        mask = (offs_m[:, None] < M) & (offs_k[None, :] < K)
        a = tl.load(a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak, mask, 0.0)
        x = tl.load(x_ptr + offs_k * stride_x, offs_k < K, 0.0)
        acc += a * x[None, :]
    tl.store(y_ptr + offs_m, tl.sum(acc, axis=1), mask=offs_m < M)


def matvec(a, x):
    M, K = a.shape
    y = torch.empty(M, dtype=a.dtype, device=a.device)
    matvec_kernel[(triton.cdiv(M, 32),)](
        a, x, y, M, K, *a.stride(), *x.stride(), BLOCK_M=32, BLOCK_K=128
    )
    return y
