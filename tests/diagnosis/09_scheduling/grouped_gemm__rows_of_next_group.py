# fault: the rows of a tile are masked with T instead of the end of their group
# cause: lets offs_m run up to T .* let each tile end where its own part does
import torch
import triton
import triton.language as tl


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def grouped_matmul_kernel(
    a_ptr, b_ptr, c_ptr, ends_ptr,
    T, N, K, G,
    stride_am, stride_ak,
    stride_bg, stride_bk, stride_bn,
    stride_ends,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    programs = tl.num_programs(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    before = 0  # the tiles of all groups before this one
    start = 0
    for g in range(G):
        end = tl.load(ends_ptr + g * stride_ends).to(tl.int32)
        tiles = tl.cdiv(end - start, BLOCK_M) * tiles_n
        while tile < before + tiles:
            pid_m = (tile - before) // tiles_n
            pid_n = (tile - before) % tiles_n
            offs_m = start + pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
            offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
            row_mask = offs_m < T
            acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for k in range(0, K, BLOCK_K):
                offs_k = k + tl.arange(0, BLOCK_K)
                a = tl.load(
                    a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak,
                    mask=row_mask[:, None] & (offs_k[None, :] < K), other=0.0,
                )  # fmt: skip
                b = tl.load(
                    b_ptr + g * stride_bg + offs_k[:, None] * stride_bk
                    + offs_n[None, :] * stride_bn,
                    mask=(offs_k[:, None] < K) & (offs_n[None, :] < N), other=0.0,
                )  # fmt: skip
                acc = tl.dot(a, b, acc)
            tl.store(
                c_ptr + offs_m[:, None] * N + offs_n[None, :],
                acc.to(c_ptr.dtype.element_ty),
                mask=row_mask[:, None] & (offs_n[None, :] < N),
            )
            tile += programs
        before += tiles
        start = end


def grouped_matmul(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    T, K = a.shape
    G, _, N = b.shape
    c = torch.empty((T, N), dtype=a.dtype, device=a.device)
    grid = (multiprocessors(a.device),)
    grouped_matmul_kernel[grid](
        a, b, c, ends, T, N, K, G,
        a.stride(0), a.stride(1), b.stride(0), b.stride(1), b.stride(2), ends.stride(0),
        BLOCK_M=32, BLOCK_N=32, BLOCK_K=32,
    )  # fmt: skip
    return c
