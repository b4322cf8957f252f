# fault: the grid has the tiles of M on axis 0, where the kernel takes the tiles of N
# cause: (axis|axes) .*(grid|swapped|program)|grid.*(axis|axes)
import torch
import triton
import triton.language as tl


@triton.jit
def batched_matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_ab, stride_am, stride_ak,
    stride_bb, stride_bk, stride_bn,
    stride_cb, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(2)
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    a_ptr += batch * stride_ab
    b_ptr += batch * stride_bb
    c_ptr += batch * stride_cb
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        across, down = offs_k[None, :], offs_k[:, None]
        a_mask, b_mask = (offs_m < M) & (across < K), (down < K) & (offs_n < N)
        a = tl.load(a_ptr + offs_m * stride_am + across * stride_ak, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + down * stride_bk + offs_n * stride_bn, mask=b_mask, other=0.0)
        acc = tl.dot(a, b, acc)
    c_ptrs = c_ptr + offs_m * stride_cm + offs_n * stride_cn
    tl.store(c_ptrs, acc, mask=(offs_m < M) & (offs_n < N))


def batched_matmul(a, b):
    (_, M, K), N = a.shape, b.shape[2]
    B = max(a.shape[0], b.shape[0])
    c = torch.empty((B, M, N), dtype=a.dtype, device=a.device)
    stride_ab = 0 if a.shape[0] == 1 else a.stride(0)
    stride_bb = 0 if b.shape[0] == 1 else b.stride(0)
    batched_matmul_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 128), B)](
        a, b, c, M, N, K,
        stride_ab, *a.stride()[1:], stride_bb, *b.stride()[1:], *c.stride(),
        BLOCK_M=64, BLOCK_N=128, BLOCK_K=32,
    )  # fmt: skip
    return c
