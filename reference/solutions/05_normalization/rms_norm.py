"""05.2  RMS norm: one good answer.

The row is scaled and weighted in float32, and rounded once, by the store. The weight is loaded
after the reduction, so that it takes no registers during it. Short rows share a program of 2 warps,
and a long row has a warp for every 1024 elements.
"""

import torch
import triton
import triton.language as tl

TILE = 2048
LONGEST = 2**15


@triton.jit
def rms_norm_kernel(
    x_ptr, weight_ptr, y_ptr,
    M, N, eps,
    stride_xm, stride_xn, stride_w,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.arange(0, BLOCK_N).to(tl.int64)[None, :]
    mask = (rows < M) & (cols < N)
    x_ptrs = x_ptr + rows * stride_xm + cols * stride_xn
    x = tl.load(x_ptrs, mask=mask, other=0.0).to(tl.float32)
    mean_square = tl.sum(x * x, axis=1, keep_dims=True) / N
    rstd = tl.rsqrt(mean_square + eps)
    weight = tl.load(weight_ptr + cols * stride_w, mask=cols < N, other=0.0).to(tl.float32)
    tl.store(y_ptr + rows * N + cols, x * rstd * weight, mask=mask)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    if x.dim() != 2 or not x.is_floating_point() or x.shape[1] > LONGEST:
        raise ValueError(
            f"x must be 2-D and floating point with rows of at most {LONGEST} elements, "
            f"not {x.dtype} {tuple(x.shape)}"
        )
    M, N = x.shape
    if weight.shape != (N,) or weight.dtype != x.dtype:
        raise ValueError(
            f"weight must be {x.dtype} ({N},) like a row of x, "
            f"not {weight.dtype} {tuple(weight.shape)}"
        )
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK_N = triton.next_power_of_2(N)
    BLOCK_M = min(triton.next_power_of_2(M), max(1, TILE // BLOCK_N))
    rms_norm_kernel[(triton.cdiv(M, BLOCK_M),)](
        x, weight, y,
        M, N, eps,
        x.stride(0), x.stride(1), weight.stride(0),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=min(max(BLOCK_N // 1024, 2), 32),
    )  # fmt: skip
    return y
