# The transpose of b.T @ a.T, from the end of K to its beginning, with masks made by tl.where.
import triton
import triton.language as tl


@triton.jit
def tiled_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, strides_a, strides_b, TILE: tl.constexpr, STEP: tl.constexpr
):
    m = tl.program_id(0) % tl.cdiv(M, TILE) * TILE + tl.arange(0, TILE)
    n = tl.program_id(0) // tl.cdiv(M, TILE) * TILE + tl.arange(0, TILE)
    acc = tl.zeros((TILE, TILE), tl.float32)
    first = tl.cdiv(K, STEP) * STEP
    while first > 0:
        first -= STEP
        k = first + tl.arange(0, STEP)
        a_ptrs = a_ptr + k[:, None] * strides_a[1] + m[None, :] * strides_a[0]
        b_ptrs = b_ptr + n[:, None] * strides_b[1] + k[None, :] * strides_b[0]
        a = tl.load(a_ptrs, mask=(k < K)[:, None] & (m < M)[None, :])
        b = tl.load(b_ptrs, mask=(n < N)[:, None] & (k < K)[None, :])
        a = tl.where((k < K)[:, None], a, 0)
        b = tl.where((k < K)[None, :], b, 0)
        acc = tl.dot(b, a, acc)
    c = tl.trans(acc).to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + m[:, None] * N + n[None, :], c, mask=(m < M)[:, None] & (n < N)[None, :])


class Kernels:
    matmul = tiled_matmul_kernel


def tiled_matmul(a, b):
    (M, K), (_, N) = a.shape, b.shape
    c = a.new_empty(M, N)
    tiles = triton.cdiv(M, 64) * triton.cdiv(N, 64)
    Kernels.matmul[[tiles]](a, b, c, M, N, K, a.stride(), b.stride(), TILE=64, STEP=16)
    return c
