# fault: the counter by which the last program knows itself is relaxed, and orders nothing
# cause: relaxed
import torch
import triton
import triton.language as tl


def multiprocessors(device):
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def split_k_matmul_kernel(
    a_ptr, b_ptr, c_ptr, parts_ptr, done_ptr,
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
    inside = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    place = offs_m[:, None] * N + offs_n[None, :]
    pieces = tl.num_programs(1)
    if pieces == 1:
        tl.store(c_ptr + place, acc.to(c_ptr.dtype.element_ty), mask=inside)
    else:
        tl.store(parts_ptr + piece * M * N + place, acc, mask=inside)
        tl.debug_barrier()
        before = tl.atomic_add(done_ptr + tl.program_id(0), 1, sem="relaxed")
        if before == pieces - 1:
            acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for piece in range(pieces):
                acc += tl.load(parts_ptr + piece * M * N + place, mask=inside, other=0.0)
            tl.store(c_ptr + place, acc.to(c_ptr.dtype.element_ty), mask=inside)


def split_k_matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    BLOCK_M, BLOCK_N, BLOCK_K = 128, 128, 64 if a.element_size() == 2 else 32
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    pieces = max(1, min(multiprocessors(a.device) // tiles, triton.cdiv(K, 2 * BLOCK_K)))
    piece_length = triton.cdiv(triton.cdiv(K, pieces), BLOCK_K) * BLOCK_K
    pieces = triton.cdiv(K, piece_length)
    parts, done = c, c
    if pieces > 1:
        parts = torch.empty((pieces, M, N), dtype=torch.float32, device=a.device)
        done = torch.zeros(tiles, dtype=torch.int32, device=a.device)
    split_k_matmul_kernel[(tiles, pieces)](
        a, b, c, parts, done, M, N, K, piece_length, *a.stride(), *b.stride(),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, num_warps=8,
    )  # fmt: skip
    return c
