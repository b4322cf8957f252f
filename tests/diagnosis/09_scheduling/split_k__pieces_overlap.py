# fault: a piece is masked with K instead of its own end
# cause: goes on into the next piece
import torch
import triton
import triton.language as tl


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def split_k_matmul_kernel(
    a_ptr, b_ptr, parts_ptr,
    M, N, K, pieces,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    piece = tl.program_id(1)
    tiles_n = tl.cdiv(N, BLOCK_N)
    offs_m = pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    length = tl.cdiv(K, pieces)
    start = piece * length
    end = tl.minimum(start + length, K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(start, end, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        in_k = offs_k < K
        a = tl.load(
            a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak,
            mask=(offs_m[:, None] < M) & in_k[None, :], other=0.0,
        )  # fmt: skip
        b = tl.load(
            b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn,
            mask=in_k[:, None] & (offs_n[None, :] < N), other=0.0,
        )  # fmt: skip
        acc = tl.dot(a, b, acc)
    ptrs = parts_ptr + piece * M * N + offs_m[:, None] * N + offs_n[None, :]
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(ptrs, acc.to(parts_ptr.dtype.element_ty), mask=mask)


@triton.jit
def sum_pieces_kernel(
    parts_ptr, c_ptr,
    size, pieces,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < size
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for piece in range(pieces):
        acc += tl.load(parts_ptr + piece * size + offs, mask=mask, other=0.0)
    tl.store(c_ptr + offs, acc.to(c_ptr.dtype.element_ty), mask=mask)


def split_k_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    BLOCK_M, BLOCK_N, BLOCK_K = 32, 32, 32
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    programs = multiprocessors(a.device)
    pieces = 1
    if tiles < programs:
        pieces = min(triton.cdiv(programs, tiles), max(1, K // (2 * BLOCK_K)))
    # with a single piece the tiles go straight into c
    parts = c
    if pieces > 1:
        parts = torch.empty((pieces, M, N), dtype=torch.float32, device=a.device)
    split_k_matmul_kernel[(tiles, pieces)](
        a, b, parts, M, N, K, pieces,
        a.stride(0), a.stride(1), b.stride(0), b.stride(1),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K,
    )  # fmt: skip
    if pieces > 1:
        sum_pieces_kernel[(triton.cdiv(M * N, 256),)](parts, c, M * N, pieces, BLOCK=256)
    return c
