# fault: the loop steps by num_programs rows instead of num_programs * BLOCK_M
# cause: turns overlap

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
    cols = tl.arange(0, BLOCK_N)[None, :]
    first = tl.program_id(0) * BLOCK_M
    for start in tl.range(first, M, tl.num_programs(0), num_stages=2):
        rows = start + tl.arange(0, BLOCK_M)[:, None]
        mask = (rows < M) & (cols < N)
        x = tl.load(x_ptr + rows * N + cols, mask=mask, other=float("-inf")).to(tl.float32)
        x = tl.where(rows < M, x, 0.0)
        e = tl.exp(x - tl.max(x, axis=1, keep_dims=True))
        y = e / tl.sum(e, axis=1, keep_dims=True)
        tl.store(y_ptr + rows * N + cols, y, mask=mask)


def persistent_softmax(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_N = triton.next_power_of_2(N)
    BLOCK_M = max(1, 4096 // BLOCK_N)
    programs = min(multiprocessors(x.device), triton.cdiv(M, BLOCK_M))
    persistent_softmax_kernel[(programs,)](
        x, y, M, N, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=8
    )
    return y
