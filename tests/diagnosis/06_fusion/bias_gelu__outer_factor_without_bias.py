# fault: the factor in front of the bracket is x / 2, without the bias
# cause: 0\.5 \* x: with 0\.5 \* v in its place the result is right
import torch
import triton
import triton.language as tl


@triton.jit
def bias_gelu_kernel(
    x_ptr, bias_ptr, y_ptr,
    M, N,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    offs = rows[:, None] * N + cols[None, :]
    bias = tl.load(bias_ptr + cols, mask=cols < N).to(tl.float32)
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    v = x + bias[None, :]
    y = 0.5 * x * (1.0 + tl.erf(v * 0.7071067811865476))
    tl.store(y_ptr + offs, y, mask=mask)


def bias_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_M, BLOCK_N = 16, 128
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    bias_gelu_kernel[grid](x, bias, y, M, N, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N)
    return y
