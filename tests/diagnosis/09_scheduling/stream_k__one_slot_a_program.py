# fault: a program's two parts go to one slot
# cause: slot|stored twice|overwr|parts|lost or counted twice
import torch
import triton
import triton.language as tl


def multiprocessors(device):
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def stream_k_matmul_kernel(
    a_ptr, b_ptr, c_ptr, parts_ptr,
    M, N, K, total,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pid, programs = tl.program_id(0), tl.num_programs(0)
    tiles_n, steps = tl.cdiv(N, BLOCK_N), tl.cdiv(K, BLOCK_K)
    begin, end = pid * total // programs, (pid + 1) * total // programs
    at = begin
    while at < end:
        tile = at // steps
        first = at % steps
        last = tl.minimum(steps, first + end - at)
        offs_m = tile // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
        inside = (offs_m[:, None] < M) & (offs_n[None, :] < N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(first, last):
            k = step * BLOCK_K + tl.arange(0, BLOCK_K)
            a_ptrs = a_ptr + offs_m[:, None] * stride_am + k[None, :] * stride_ak
            b_ptrs = b_ptr + k[:, None] * stride_bk + offs_n[None, :] * stride_bn
            a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & (k[None, :] < K), other=0.0)
            b = tl.load(b_ptrs, mask=(k[:, None] < K) & (offs_n[None, :] < N), other=0.0)
            acc += tl.dot(a, b)
        if last - first == steps:
            c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
            tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=inside)
        else:
            # Slot 0 is for the tile in which the share begins, slot 1 for the one where it ends.
            slot = 2 * pid
            offs = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
            tl.store(parts_ptr + slot * BLOCK_M * BLOCK_N + offs, acc)
        at += last - first


@triton.jit
def add_parts_kernel(
    parts_ptr, c_ptr,
    M, N, K, total, programs,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    tiles_n, steps = tl.cdiv(N, BLOCK_N), tl.cdiv(K, BLOCK_K)
    begin_of_tile = tile * steps
    end_of_tile = begin_of_tile + steps
    # Shares are rounded down, so that this is the owner of the first step or the program before.
    program = begin_of_tile * programs // total
    if (program + 1) * total // programs <= begin_of_tile:
        program += 1
    is_whole = (program + 1) * total // programs >= end_of_tile
    if not is_whole:
        offs = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        begin = program * total // programs
        while begin < end_of_tile:
            slot = 2 * program
            acc += tl.load(parts_ptr + slot * BLOCK_M * BLOCK_N + offs)
            program += 1
            begin = program * total // programs
        offs_m = tile // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
        inside = (offs_m[:, None] < M) & (offs_n[None, :] < N)
        c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
        tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=inside)


def stream_k_matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    BLOCK_M, BLOCK_N, BLOCK_K = 128, 128, 64 if a.element_size() == 2 else 32
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    total = tiles * triton.cdiv(K, BLOCK_K)
    programs = min(multiprocessors(a.device), total)
    parts = torch.empty((2 * programs, BLOCK_M, BLOCK_N), dtype=torch.float32, device=a.device)
    stream_k_matmul_kernel[(programs,)](
        a, b, c, parts, M, N, K, total, *a.stride(), *b.stride(),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, num_warps=8,
    )  # fmt: skip
    add_parts_kernel[(tiles,)](
        parts, c, M, N, K, total, programs,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, num_warps=8,
    )  # fmt: skip
    return c
