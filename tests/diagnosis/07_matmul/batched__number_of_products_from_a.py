# fault: the number of products is a.shape[0], also where a is for all
# cause: 1 is the size of a in dimension 0, and that of b is 5
import torch
import triton
import triton.language as tl


@triton.jit
def batched_matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_ab, stride_am, stride_ak,
    stride_bb, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    pid = tl.program_id(0)
    i = (pid // (tiles_m * tiles_n)).to(tl.int64)
    tile = pid % (tiles_m * tiles_n)
    rows = tile // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + i * stride_ab + rows[:, None] * stride_am + ks[None, :] * stride_ak
    b_ptrs = b_ptr + i * stride_bb + ks[:, None] * stride_bk + cols[None, :] * stride_bn
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        left = ks < K - start
        a = tl.load(a_ptrs, mask=(rows < M)[:, None] & left[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=left[:, None] & (cols < N)[None, :], other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    c_ptrs = c_ptr + i * M * N + rows[:, None] * N + cols[None, :]
    tl.store(c_ptrs, acc, mask=(rows < M)[:, None] & (cols < N)[None, :])


def batched_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    B = a.shape[0]
    M, K = a.shape[1:]
    N = b.shape[2]
    c = torch.empty(B, M, N, dtype=a.dtype, device=a.device)
    # a batch of 1 is the same for all: a stride of 0
    stride_ab = a.stride(0) if a.shape[0] > 1 else 0
    stride_bb = b.stride(0) if b.shape[0] > 1 else 0
    BLOCK = 64
    grid = (B * triton.cdiv(M, BLOCK) * triton.cdiv(N, BLOCK),)
    batched_matmul_kernel[grid](
        a, b, c, M, N, K,
        stride_ab, a.stride(1), a.stride(2),
        stride_bb, b.stride(1), b.stride(2),
        BLOCK_M=BLOCK, BLOCK_N=BLOCK, BLOCK_K=32,
    )  # fmt: skip
    return c
