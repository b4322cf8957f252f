# fault: the tile fetched ahead is the next one, not that of the program's next turn
# cause: the tile fetched ahead is the next one, not the program's next

import torch
import triton
import triton.language as tl


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def load_rows(x_ptr, tile, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, BLOCK_N)
    mask = (rows < M)[:, None] & (cols < N)[None, :]
    return tl.load(
        x_ptr + rows.to(tl.int64)[:, None] * N + cols[None, :], mask=mask, other=float("-inf")
    )


@triton.jit
def persistent_softmax_kernel(
    x_ptr, y_ptr,
    M, N,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    programs = tl.num_programs(0)
    cols = tl.arange(0, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M)
    x = load_rows(x_ptr, tl.program_id(0), M, N, BLOCK_M, BLOCK_N).to(tl.float32)
    for tile in range(tl.program_id(0), tiles, programs):
        # The rows of the next turn are loaded while these are computed.
        x_next = load_rows(x_ptr, tile + 1, M, N, BLOCK_M, BLOCK_N)
        rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
        x = tl.where((rows < M)[:, None], x, 0.0)
        e = tl.exp(x - tl.max(x, 1)[:, None])
        y = e / tl.sum(e, 1)[:, None]
        mask = (rows < M)[:, None] & (cols < N)[None, :]
        tl.store(y_ptr + rows.to(tl.int64)[:, None] * N + cols[None, :], y, mask=mask)
        x = x_next.to(tl.float32)


def persistent_softmax(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_N = triton.next_power_of_2(N)
    BLOCK_M = max(1, 1024 // BLOCK_N)
    programs = min(multiprocessors(x.device), triton.cdiv(M, BLOCK_M))
    persistent_softmax_kernel[(programs,)](
        x, y, M, N, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=8
    )
    return y
