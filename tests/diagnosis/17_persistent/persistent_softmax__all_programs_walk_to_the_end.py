# fault: the loop over rows advances by BLOCK_M in each program, not by that times the programs
# cause: start moves by \d+ from turn to turn \(BLOCK_M\)

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
    cols = tl.arange(0, BLOCK_N)
    for start in tl.range(tl.program_id(0) * BLOCK_M, M, BLOCK_M, num_stages=2):
        rows = start + tl.arange(0, BLOCK_M)
        offs = rows[:, None].to(tl.int64) * N + cols[None, :]
        there = (cols < N)[None, :]
        mask = (rows < M)[:, None] & there
        x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
        x = tl.where(there, x, -float("inf"))
        e = tl.exp(x - tl.max(x, axis=1, keep_dims=True))
        tl.store(y_ptr + offs, e / tl.sum(e, axis=1, keep_dims=True), mask=mask)


def persistent_softmax(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_N = triton.next_power_of_2(N)
    BLOCK_M = max(1, min(16, 4096 // BLOCK_N))
    grid = (min(multiprocessors(x.device), triton.cdiv(M, BLOCK_M)),)
    persistent_softmax_kernel[grid](x, y, M, N, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=8)
    return y
