# fault: N is indices.shape[0], not indices.numel()
# cause: first size of indices: indices.numel\(\) is
import torch
import triton
import triton.language as tl


@triton.jit
def embedding_kernel(
    table_ptr, indices_ptr, out_ptr,
    D, N,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    rows = tl.load(indices_ptr + m, mask=m < N, other=0).to(tl.int64)
    mask = (m < N)[:, None] & (d < D)[None, :]
    values = tl.load(table_ptr + rows[:, None] * D + d[None, :], mask=mask)
    tl.store(out_ptr + m.to(tl.int64)[:, None] * D + d[None, :], values, mask=mask)


def embedding(table: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    D = table.shape[1]
    N = indices.shape[0]
    out = torch.empty((*indices.shape, D), dtype=table.dtype, device=table.device)
    BLOCK_M, BLOCK_D = 8, 256
    grid = (triton.cdiv(N, BLOCK_M), triton.cdiv(D, BLOCK_D))
    embedding_kernel[grid](table, indices, out, D, N, BLOCK_M=BLOCK_M, BLOCK_D=BLOCK_D)
    return out
