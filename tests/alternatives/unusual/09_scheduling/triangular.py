# The tile's row by counting rows up, from the last program to the first; lanes above the diagonal
# of a tile on it are stored from the other half.
import torch
import triton
import triton.language as tl


@triton.jit
def gram_matrix_kernel(a_ptr, c_ptr, M, K, strides, TILE: tl.constexpr, STEP: tl.constexpr):
    left = tl.num_programs(0) - 1 - tl.program_id(0)
    row = left * 0
    while left > row:
        row += 1
        left -= row
    i, j = row * TILE + tl.arange(0, TILE), left * TILE + tl.arange(0, TILE)
    acc = tl.zeros((TILE, TILE), tl.float32)
    for step in range(tl.cdiv(K, STEP)):
        k = step * STEP + tl.arange(0, STEP)
        x_ptrs = a_ptr + i[:, None] * strides[0] + k[None, :] * strides[1]
        y_ptrs = a_ptr + j[None, :] * strides[0] + k[:, None] * strides[1]
        x = tl.load(x_ptrs, mask=(i < M)[:, None] & (k < K)[None, :], other=0)
        y = tl.load(y_ptrs, mask=(j < M)[None, :] & (k < K)[:, None], other=0)
        acc = tl.dot(x, y, acc)
    turned = tl.trans(acc)
    on_it = row == left
    acc = tl.where(on_it & (i[:, None] < j[None, :]), turned, acc).to(c_ptr.dtype.element_ty)
    mask = (i < M)[:, None] & (j < M)[None, :]
    tl.store(c_ptr + i[:, None] * M + j[None, :], acc, mask=mask)
    turned = tl.permute(acc, 1, 0)
    mask = (j < M)[:, None] & (i < M)[None, :] & (row > left)
    tl.store(c_ptr + j[:, None] * M + i[None, :], turned, mask=mask)


def gram_matrix(a):
    M, K = a.shape
    c = torch.empty((M, M), dtype=a.dtype, device=a.device)
    tiles = -(-M // 64)
    gram_matrix_kernel[sum(range(tiles + 1)), 1, 1](a, c, M, K, a.stride(), TILE=64, STEP=64)
    return c
