# fault: the flags that programs wait for are relaxed, and order nothing
# cause: relaxed
import torch
import triton
import triton.language as tl


def multiprocessors(device):
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def stream_k_matmul_kernel(
    a_ptr, b_ptr, c_ptr, parts_ptr, flags_ptr,
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
        offs = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
        if last == steps:
            # The program that ends a tile adds what earlier programs have of it, in order of K.
            begin_of_tile = tile * steps
            program = begin_of_tile * programs // total
            if (program + 1) * total // programs <= begin_of_tile:
                program += 1
            parts = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            while program < pid:
                while tl.atomic_add(flags_ptr + program, 0) == 0:
                    pass
                parts += tl.load(parts_ptr + program * BLOCK_M * BLOCK_N + offs)
                program += 1
            c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
            tl.store(c_ptrs, (parts + acc).to(c_ptr.dtype.element_ty), mask=inside)
        else:
            tl.store(parts_ptr + pid * BLOCK_M * BLOCK_N + offs, acc)
            tl.debug_barrier()
            tl.atomic_xchg(flags_ptr + pid, 1, sem="relaxed")
        at += last - first


def stream_k_matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    BLOCK_M, BLOCK_N, BLOCK_K = 128, 128, 64 if a.element_size() == 2 else 32
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    total = tiles * triton.cdiv(K, BLOCK_K)
    programs = min(multiprocessors(a.device), total)
    parts = torch.empty((programs, BLOCK_M, BLOCK_N), dtype=torch.float32, device=a.device)
    flags = torch.zeros(programs, dtype=torch.int32, device=a.device)
    stream_k_matmul_kernel[(programs,)](
        a, b, c, parts, flags, M, N, K, total, *a.stride(), *b.stride(),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, num_warps=8,
    )  # fmt: skip
    return c
