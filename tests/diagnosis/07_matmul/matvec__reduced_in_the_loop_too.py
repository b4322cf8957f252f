# fault: sums of rows are added to each column of a tile, which is added up at the end
# cause: added up once more, over 128 elements
# never: a constant is left out

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
        a = tl.load(
            a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak,
            mask=(offs_m < M)[:, None] & (offs_k < K)[None, :],
            other=0.0,
        ).to(tl.float32)
        x = tl.load(x_ptr + offs_k * stride_x, mask=offs_k < K, other=0.0).to(tl.float32)
        acc += tl.sum(a * x[None, :], axis=1, keep_dims=True)
    tl.store(y_ptr + offs_m, tl.sum(acc, axis=1), mask=offs_m < M)


def matvec(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    M, K = a.shape
    y = torch.empty(M, dtype=a.dtype, device=a.device)
    BLOCK_M, BLOCK_K = 16, 128
    matvec_kernel[(triton.cdiv(M, BLOCK_M),)](
        a, x, y, M, K, *a.stride(), x.stride(0), BLOCK_M=BLOCK_M, BLOCK_K=BLOCK_K
    )
    return y
