# fault: the mirrored tile is stored with the mask of the tile itself
# cause: rows is \d+ in this program, but c has \d+ columns
import torch
import triton
import triton.language as tl


@triton.jit
def gram_matrix_kernel(
    a_ptr, c_ptr,
    M, K,
    stride_am, stride_ak,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    # the row of tiles: the largest i with i * (i + 1) / 2 <= pid
    i = ((tl.sqrt(8.0 * pid + 1.0) - 1.0) / 2.0).to(tl.int32)
    i = tl.where(i * (i + 1) // 2 > pid, i - 1, i)
    i = tl.where((i + 1) * (i + 2) // 2 <= pid, i + 1, i)
    j = pid - i * (i + 1) // 2

    rows = i * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = j * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        left = tl.load(
            a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak,
            mask=(rows < M)[:, None] & (ks < K)[None, :], other=0.0,
        )  # fmt: skip
        right = tl.load(
            a_ptr + cols[None, :] * stride_am + ks[:, None] * stride_ak,
            mask=(cols < M)[None, :] & (ks < K)[:, None], other=0.0,
        )  # fmt: skip
        acc = tl.dot(left, right, acc)
    c = acc.to(c_ptr.dtype.element_ty)
    mask = (rows < M)[:, None] & (cols < M)[None, :]
    if i == j:
        # one half of the diagonal's tile is the mirror image of the other
        below = tl.arange(0, BLOCK_M)[:, None] >= tl.arange(0, BLOCK_N)[None, :]
        c = tl.where(below, c, tl.trans(c))
        tl.store(c_ptr + rows[:, None] * M + cols[None, :], c, mask=mask)
    else:
        tl.store(c_ptr + rows[:, None] * M + cols[None, :], c, mask=mask)
        tl.store(c_ptr + cols[:, None] * M + rows[None, :], tl.trans(c), mask=mask)


def gram_matrix(a: torch.Tensor) -> torch.Tensor:
    M, K = a.shape
    c = torch.empty(M, M, dtype=a.dtype, device=a.device)
    BLOCK = 64 if M <= 1024 else 128
    tiles = triton.cdiv(M, BLOCK)
    gram_matrix_kernel[(tiles * (tiles + 1) // 2,)](
        a, c, M, K, a.stride(0), a.stride(1),
        BLOCK_M=BLOCK, BLOCK_N=BLOCK, BLOCK_K=32, num_warps=8,
    )  # fmt: skip
    return c
