# fault: the loop ends at D // BLOCK_D * BLOCK_D instead of D
# cause: the loop takes no turn|loop over tiles ends too early
import torch
import triton
import triton.language as tl


@triton.jit
def embedding_kernel(
    table_ptr, indices_ptr, out_ptr,
    D, N,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    offs_m = pid * BLOCK_M + tl.arange(0, BLOCK_M)
    row_mask = offs_m < N
    rows = tl.load(indices_ptr + offs_m, mask=row_mask, other=0).to(tl.int64)
    for start in range(0, D // BLOCK_D * BLOCK_D, BLOCK_D):
        offs_d = start + tl.arange(0, BLOCK_D)
        mask = row_mask[:, None] & (offs_d[None, :] < D)
        tile = tl.load(table_ptr + rows[:, None] * D + offs_d[None, :], mask=mask)
        out_offs = offs_m[:, None].to(tl.int64) * D + offs_d[None, :]
        tl.store(out_ptr + out_offs, tile, mask=mask)


def embedding(table: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    D = table.shape[1]
    N = indices.numel()
    out = torch.empty((*indices.shape, D), dtype=table.dtype, device=table.device)
    BLOCK_M = 4
    BLOCK_D = min(triton.next_power_of_2(D), 256)
    embedding_kernel[(triton.cdiv(N, BLOCK_M),)](
        table, indices, out, D, N, BLOCK_M=BLOCK_M, BLOCK_D=BLOCK_D
    )
    return out
