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
    pid = tl.program_id(0)
    programs = tl.num_programs(0)
    cols = tl.arange(0, BLOCK_N)
    for start in tl.range(pid * BLOCK_M, M, programs, num_stages=2):
        rows = start + tl.arange(0, BLOCK_M)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        offs = rows[:, None].to(tl.int64) * N + cols[None, :]
        x = tl.load(x_ptr + offs, mask=mask, other=float("-inf")).to(tl.float32)
        largest = tl.max(x, 1)
        largest = tl.where(rows < M, largest, 0.0)
        e = tl.exp(x - largest[:, None])
        total = tl.where(rows < M, tl.sum(e, 1), 1.0)
        y = e / total[:, None]
        tl.store(y_ptr + offs, y.to(y_ptr.dtype.element_ty), mask=mask)


def persistent_softmax(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_N = triton.next_power_of_2(N)
    BLOCK_M = max(1, min(8, 4096 // BLOCK_N))
    programs = min(triton.cdiv(M, BLOCK_M), 4 * multiprocessors(x.device))
    persistent_softmax_kernel[(programs,)](
        x, y, M, N, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=8
    )
    return y
