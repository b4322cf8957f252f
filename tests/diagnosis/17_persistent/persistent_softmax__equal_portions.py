# fault: each program takes tiles // programs tiles, rounded down
# cause: a loop over tiles ends too early
# never: STAGES = 3
import torch
import triton
import triton.language as tl


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def persistent_softmax_kernel(
    x_ptr, y_ptr,
    M, N,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(M, BLOCK_M)
    portion = tiles // tl.num_programs(0)
    first = tl.program_id(0) * portion
    cols = tl.arange(0, BLOCK_N)[None, :]
    for tile in tl.range(first, first + portion, num_stages=STAGES):
        rows = (tl.cast(tile, tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
        mask = (rows < M) & (cols < N)
        x = tl.load(x_ptr + rows * N + cols, mask=mask, other=float("-inf")).to(tl.float32)
        top = tl.where(rows < M, tl.max(x, axis=1, keep_dims=True), 0.0)
        e = tl.exp(x - top)
        share = 1.0 / tl.sum(e, axis=1, keep_dims=True)
        tl.store(y_ptr + rows * N + cols, e * share, mask=mask)


def persistent_softmax(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_N = triton.next_power_of_2(N)
    BLOCK_M = max(1, 4096 // BLOCK_N)
    programs = min(multiprocessors(x.device), triton.cdiv(M, BLOCK_M))
    persistent_softmax_kernel[(programs,)](
        x, y, M, N, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, STAGES=3, num_warps=8
    )
    return y
