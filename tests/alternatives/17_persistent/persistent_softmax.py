# As Triton's tutorial has it: as many programs as fit a multiprocessor by their threads, one row at
# a time, and the loads ahead left to num_stages.

import torch
import triton
import triton.language as tl

LONGEST = 2**16


def multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def persistent_softmax_kernel(
    out_ptr, in_ptr,
    in_stride_row, in_stride_col, out_stride_row,
    n_rows, n_cols,
    BLOCK_SIZE: tl.constexpr, num_stages: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK_SIZE).to(tl.int64)
    mask = cols < n_cols
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0), num_stages=num_stages):
        row = tl.cast(row, tl.int64)
        x_ptrs = in_ptr + row * in_stride_row + cols * in_stride_col
        x = tl.load(x_ptrs, mask=mask, other=-float("inf")).to(tl.float32)
        numerator = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * out_stride_row + cols, numerator / tl.sum(numerator), mask=mask)


def persistent_softmax(x: torch.Tensor) -> torch.Tensor:
    if x.dim() != 2 or not x.is_floating_point():
        raise ValueError(f"x must be a matrix of floats, not {x.dtype} {tuple(x.shape)}")
    n_rows, n_cols = x.shape
    if n_cols > LONGEST:
        raise ValueError(f"x has rows of {n_cols} elements, and {LONGEST} are the most")
    y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    num_warps = 8 if BLOCK_SIZE <= 8192 else 32
    occupancy = 64 // num_warps
    grid = (min(n_rows, occupancy * multiprocessors(x.device)),)
    persistent_softmax_kernel[grid](
        y, x, x.stride(0), x.stride(1), y.stride(0), n_rows, n_cols,
        BLOCK_SIZE=BLOCK_SIZE, num_stages=2 if BLOCK_SIZE <= 2048 else 1, num_warps=num_warps,
    )  # fmt: skip
    return y
