"""17.1  Persistent softmax: one good answer."""

import math

import torch
import triton
import triton.language as tl

TILE = 2**14
LONGEST = 2**16


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def load_rows(x_ptrs, start, M, stride_xm, inside, BLOCK_M: tl.constexpr):
    rows = start + tl.arange(0, BLOCK_M)[:, None]
    x_ptrs += rows.to(tl.int64) * stride_xm
    return tl.load(x_ptrs, mask=(rows < M) & inside, other=float("-inf"))


@triton.jit
def persistent_softmax_kernel(
    x_ptr, y_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, VECTOR: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    # Both are multiples of VECTOR, which the compiler is told here: by itself it looks for
    # multiples of 16 only. Neighbouring elements then go in one load.
    N = N // VECTOR * VECTOR
    stride_xm = stride_xm // VECTOR * VECTOR
    cols = tl.arange(0, BLOCK_N)[None, :]
    x_ptrs = x_ptr + cols.to(tl.int64) * stride_xn
    first = tl.program_id(0) * BLOCK_M
    step = tl.num_programs(0) * BLOCK_M
    if AHEAD:
        ahead = load_rows(x_ptrs, first, M, stride_xm, cols < N, BLOCK_M)
    for start in range(first, M, step):
        if AHEAD:
            x = ahead.to(tl.float32)
            ahead = load_rows(x_ptrs, start + step, M, stride_xm, cols < N, BLOCK_M)
        else:
            x = load_rows(x_ptrs, start, M, stride_xm, cols < N, BLOCK_M).to(tl.float32)
        # exp2, and one division a row, take fewer instructions than exp and one an element: a
        # program that is alone on its multiprocessor has none to spare.
        exponents = (x - tl.max(x, axis=1, keep_dims=True)) * 1.4426950408889634  # log2(e)
        exponentials = tl.exp2(exponents)
        y = exponentials * (1.0 / tl.sum(exponentials, axis=1, keep_dims=True))
        rows = start + tl.arange(0, BLOCK_M)[:, None]
        tl.store(y_ptr + rows.to(tl.int64) * N + cols, y, mask=(rows < M) & (cols < N))


def persistent_softmax(x: torch.Tensor) -> torch.Tensor:
    if x.dim() != 2 or not x.is_floating_point() or x.shape[1] > LONGEST:
        raise ValueError(
            f"x must be 2-D and floating point with rows of at most {LONGEST} elements, "
            f"not {x.dtype} {tuple(x.shape)}"
        )
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK_N = triton.next_power_of_2(N)
    BLOCK_M = min(triton.next_power_of_2(M), max(1, TILE // BLOCK_N))
    size = BLOCK_M * BLOCK_N * x.element_size()
    programs = min(triton.cdiv(M, BLOCK_M), multiprocessors(x.device))
    persistent_softmax_kernel[(programs,)](
        x, y, M, N, x.stride(0), x.stride(1),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
        VECTOR=math.gcd(N, x.stride(0), 16 // x.element_size()),
        # Registers hold 256 KB, this tile in float32 too. A row of 65536 takes all of them, and a
        # part of it spills: the budget is one load an element.
        AHEAD=size <= 2**16,
        num_warps=32 if BLOCK_N > TILE else min(max(size // 4096, 4), 16),
    )  # fmt: skip
    return y
