# fault: rows that are loaded ahead have 0, not -inf, past column N
# cause: other=0\.0\): with tl\.load\(.*other=float\(\"-inf\"\)\) in its place
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
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK_M
    step = tl.num_programs(0) * BLOCK_M
    cols = tl.arange(0, BLOCK_N)[None, :]
    rows = first + tl.arange(0, BLOCK_M)[:, None]
    offs = rows.to(tl.int64) * N + cols
    mask = (rows < M) & (cols < N)
    ahead = tl.load(x_ptr + offs, mask=mask, other=float("-inf"))

    for _ in range(first, M, step):
        x = ahead.to(tl.float32)
        # The next rows are on their way while these are computed.
        next_rows = rows + step
        next_offs = next_rows.to(tl.int64) * N + cols
        next_mask = (next_rows < M) & (cols < N)
        ahead = tl.load(x_ptr + next_offs, mask=next_mask, other=0.0)

        e = tl.exp(x - tl.max(x, 1)[:, None])
        y = e * (1.0 / tl.sum(e, 1))[:, None]
        tl.store(y_ptr + offs, y.to(y_ptr.dtype.element_ty), mask=mask)
        rows, offs, mask = next_rows, next_offs, next_mask


def persistent_softmax(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_N = triton.next_power_of_2(N)
    BLOCK_M = max(1, 4096 // BLOCK_N)
    programs = min(multiprocessors(x.device), triton.cdiv(M, BLOCK_M))
    persistent_softmax_kernel[(programs,)](
        x, y, M, N, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=16
    )
    return y
