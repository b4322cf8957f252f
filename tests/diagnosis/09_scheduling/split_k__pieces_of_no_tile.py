# fault: the parts of all pieces are stored in the same place
# cause: race.*parts
import torch
import triton
import triton.language as tl


def multiprocessors(device):
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def split_k_matmul_kernel(
    a_ptr, b_ptr, parts_ptr,
    M, N, K, piece_length,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, BLOCK_N)
    piece = tl.program_id(1)
    offs_m = tl.program_id(0) // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, piece_length, BLOCK_K):
        k = piece * piece_length + start + tl.arange(0, BLOCK_K)
        a_ptrs = a_ptr + offs_m[:, None] * stride_am + k[None, :] * stride_ak
        b_ptrs = b_ptr + k[:, None] * stride_bk + offs_n[None, :] * stride_bn
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptrs, mask=(k[:, None] < K) & (offs_n[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
    parts_ptrs = parts_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(parts_ptrs, acc, mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


@triton.jit
def sum_pieces_kernel(parts_ptr, c_ptr, size, pieces, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for piece in range(pieces):
        acc += tl.load(parts_ptr + piece * size + offs, mask=offs < size)
    tl.store(c_ptr + offs, acc.to(c_ptr.dtype.element_ty), mask=offs < size)


def split_k_matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    BLOCK_M, BLOCK_N, BLOCK_K = 128, 128, 64 if a.element_size() == 2 else 32
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    pieces = max(1, min(multiprocessors(a.device) // tiles, triton.cdiv(K, 2 * BLOCK_K)))
    piece_length = triton.cdiv(triton.cdiv(K, pieces), BLOCK_K) * BLOCK_K
    pieces = triton.cdiv(K, piece_length)
    parts = c
    if pieces > 1:
        parts = torch.empty((pieces, M, N), dtype=torch.float32, device=a.device)
    split_k_matmul_kernel[(tiles, pieces)](
        a, b, parts, M, N, K, piece_length, *a.stride(), *b.stride(),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, num_warps=8,
    )  # fmt: skip
    if pieces > 1:
        sum_pieces_kernel[(triton.cdiv(M * N, 1024),)](parts, c, M * N, pieces, BLOCK=1024)
    return c
