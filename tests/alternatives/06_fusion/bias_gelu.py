"""Long rows of one line, one mask throughout, and the erf itself."""

import torch
import triton
import triton.language as tl


@triton.jit
def bias_gelu_kernel(
    x_ptr, bias_ptr, y_ptr,
    M, N,
    stride_xm, stride_xn,
    stride_bias,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    tiles_n = tl.cdiv(N, BLOCK_N)
    offs_m = pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    mask_m, mask_n = offs_m < M, offs_n < N
    mask = mask_m[:, None] & mask_n[None, :]
    # A bias is loaded once a tile, and serves BLOCK_M rows.
    bias = tl.load(bias_ptr + offs_n * stride_bias, mask=mask_n).to(tl.float32)
    x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_n[None, :] * stride_xn
    x = tl.load(x_ptrs, mask=mask).to(tl.float32) + bias[None, :]  # [BLOCK_M, BLOCK_N]
    y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    tl.store(y_ptr + offs_m[:, None] * N + offs_n[None, :], y, mask=mask)


def bias_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    if x.dim() != 2 or x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"x must be 2-D and float16, bfloat16 or float32, not {x.dtype} {tuple(x.shape)}"
        )
    M, N = x.shape
    if bias.shape != (N,) or bias.dtype != x.dtype:
        raise ValueError(f"bias must be {x.dtype} {(N,)}, not {bias.dtype} {tuple(bias.shape)}")
    y = torch.empty(M, N, dtype=x.dtype, device=x.device)
    # Rows of 64 elements are whole sectors for every dtype, and so are columns of 16.
    BLOCK_M, BLOCK_N = 1, 1024
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    bias_gelu_kernel[grid](
        x, bias, y, M, N, *x.stride(), bias.stride(0), BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N
    )
    return y
