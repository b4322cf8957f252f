# fault: the column is pid % in_group // GROUP_M, also in a shorter group
# cause: what turns the number of a program into a tile gives it twice
import torch
import triton
import triton.language as tl


@triton.jit
def swizzled_matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * tiles_n
    first_m = pid // in_group * GROUP_M
    group_rows = tl.minimum(tiles_m - first_m, GROUP_M)
    pid_m = first_m + pid % in_group % group_rows
    pid_n = pid % in_group // GROUP_M

    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        a = tl.load(
            a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak,
            mask=(rows < M)[:, None] & (ks < K)[None, :], other=0.0,
        )  # fmt: skip
        b = tl.load(
            b_ptr + ks[:, None] * stride_bk + cols[None, :] * stride_bn,
            mask=(ks < K)[:, None] & (cols < N)[None, :], other=0.0,
        )  # fmt: skip
        acc = tl.dot(a, b, acc)
    tl.store(
        c_ptr + rows[:, None] * N + cols[None, :], acc,
        mask=(rows < M)[:, None] & (cols < N)[None, :],
    )  # fmt: skip


def swizzled_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    if max(M, N) <= 1024:
        BLOCK_M, BLOCK_N, BLOCK_K, warps = 32, 32, 32, 4
    else:
        BLOCK_M, BLOCK_N, BLOCK_K, warps = 128, 128, 32, 8
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    swizzled_matmul_kernel[grid](
        a, b, c, M, N, K, *a.stride(), *b.stride(),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=8, num_warps=warps,
    )  # fmt: skip
    return c
