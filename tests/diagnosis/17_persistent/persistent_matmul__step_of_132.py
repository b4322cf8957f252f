# fault: the loop steps by 132, the multiprocessors of an H100, and the grid by those of this GPU
# cause: loop over tiles, in steps of tl.num_programs
import torch
import triton
import triton.language as tl


def multiprocessors(device):
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def place_of(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    group = tile // (GROUP_M * tiles_n)
    size = min(tiles_m - group * GROUP_M, GROUP_M)
    inside = tile % (GROUP_M * tiles_n)
    return group * GROUP_M + inside % size, inside // size


@triton.jit
def persistent_matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, 132):
        pid_m, pid_n = place_of(tile, tiles_m, tiles_n, GROUP_M)
        offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
        a_rows = a_ptr + (offs_m % M)[:, None] * stride_am
        b_columns = b_ptr + (offs_n % N)[None, :] * stride_bn
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(0, K, BLOCK_K):
            k = start + offs_k
            a = tl.load(a_rows + k[None, :] * stride_ak, mask=k[None, :] < K, other=0.0)
            b = tl.load(b_columns + k[:, None] * stride_bk, mask=k[:, None] < K, other=0.0)
            acc += tl.dot(a, b)
        c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
        inside = (offs_m[:, None] < M) & (offs_n[None, :] < N)
        tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=inside)


def persistent_matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    BLOCK, num_warps = (64, 4) if max(M, N) <= 1024 else (128, 8)
    tiles = triton.cdiv(M, BLOCK) * triton.cdiv(N, BLOCK)
    persistent_matmul_kernel[(min(tiles, multiprocessors(a.device)),)](
        a, b, c, M, N, K, *a.stride(), *b.stride(),
        BLOCK_M=BLOCK, BLOCK_N=BLOCK, BLOCK_K=64 if a.element_size() == 2 else 32, GROUP_M=8,
        num_warps=num_warps,
    )  # fmt: skip
    return c
