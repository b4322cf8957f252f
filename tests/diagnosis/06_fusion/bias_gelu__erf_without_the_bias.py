# fault: erf is computed of x, not of x + bias
# cause: erf is computed of x without the bias
import torch
import triton
import triton.language as tl


@triton.jit
def bias_gelu_kernel(
    x_ptr, bias_ptr, y_ptr,
    M, N,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows < M)[:, None] & (cols < N)[None, :]
    offs = rows.to(tl.int64)[:, None] * N + cols[None, :]
    x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    v = x + bias[None, :]
    cdf = 0.5 * (1 + tl.erf(x * 0.7071067811865476))
    tl.store(y_ptr + offs, v * cdf, mask=mask)


def bias_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_M, BLOCK_N = 8, 256
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    bias_gelu_kernel[grid](x, bias, y, M, N, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N)
    return y
