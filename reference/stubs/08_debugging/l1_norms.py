"""08.4  L1 norms

Fix a kernel that runs in the interpreter and does not compile.

    out[m] = sum_n |x[m, n]|

Report    "float32 is right on the GPU. With a half-precision model I get a CompilationError. In the
          interpreter float16 runs and is right, so I think it is a bug in Triton."
Given     x (M, N): float16, bfloat16 or float32, contiguous; rows of any length
Return    out (M,): a new tensor with the dtype of x, summed in float32 and rounded once
New here  the compiler without a GPU: pytest -k compiles --targets sm_80,sm_90. Read its type, line
          and caret; tl.static_print("acc", acc.dtype) and tl.static_assert say what it knows
Traffic   each element loaded once, each result stored once, coalesced, one launch
Speed     at least 6x the speed of PyTorch at 32768 x 8192 bfloat16 elements

Run       pytest puzzles/08_debugging/test_l1_norms.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0, and unaligned views
Sizes     no rows, no columns (whose norm is 0), very long rows, more than 65535 rows, offsets and
          steps beyond 2**31 elements
Values    NaN and inf as in PyTorch
Raise     ValueError that names x if it is not 2-D or has another dtype.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/08_debugging/production/test_l1_norms.py
"""

import torch
import triton
import triton.language as tl

TILE = 2048


@triton.jit
def l1_norms_kernel(
    x_ptr, out_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, POLICY: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, BLOCK_N)[None, :]
    mask_m = (rows < M)[:, None]
    x_ptrs = x_ptr + rows[:, None] * stride_xm + cols.to(tl.int64) * stride_xn
    x = tl.load(x_ptrs, mask=mask_m & (cols < N), other=0.0, eviction_policy=POLICY)
    acc = tl.abs(x)
    for start in range(BLOCK_N, N, BLOCK_N):
        x_ptrs += tl.cast(stride_xn, tl.int64) * BLOCK_N
        mask = mask_m & (start + cols < N)
        x = tl.load(x_ptrs, mask=mask, other=0.0, eviction_policy=POLICY)
        acc += tl.abs(x.to(tl.float32))
    tl.store(out_ptr + rows, tl.sum(acc, axis=1), mask=rows < M)


def policy(x: torch.Tensor) -> str:
    """How the L2 cache keeps x, of which each element is loaded once."""
    if x.device.type != "cuda":
        return ""
    # What the launch before stored is still there, and must be written to memory if x takes its
    # place. Where x is much larger, that is little beside it, and evict_first takes 1 to 5 % longer
    # (H100, 2026-11-27).
    cache = torch.cuda.get_device_properties(x.device).L2_cache_size
    return "evict_first" if x.numel() * x.element_size() <= 6 * cache else ""


def l1_norms(x: torch.Tensor) -> torch.Tensor:
    if x.dim() != 2 or x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"x must be 2-D and float16, bfloat16 or float32, not {x.dtype} {tuple(x.shape)}"
        )
    M, N = x.shape
    out = torch.empty(M, dtype=x.dtype, device=x.device)
    widest = 4 * TILE
    if x.element_size() == 2 and 2 * TILE < N <= 3 * TILE:
        # Half of a tile, or of the second one, would be empty.
        widest = TILE
    BLOCK_N = min(triton.next_power_of_2(max(N, 1)), widest)
    BLOCK_M = min(triton.next_power_of_2(max(M, 1)), max(1, TILE // BLOCK_N))
    l1_norms_kernel[(triton.cdiv(M, BLOCK_M),)](
        x, out, M, N, *x.stride(),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, POLICY=policy(x),
        num_warps=min(16, max(4, BLOCK_N * x.element_size() // 1024)),
    )  # fmt: skip
    return out
