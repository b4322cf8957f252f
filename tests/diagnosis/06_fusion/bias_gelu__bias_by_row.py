# fault: the bias is loaded by row
# cause: index it by what runs to N
import torch
import triton
import triton.language as tl


@triton.jit
def bias_gelu_kernel(x_ptr, bias_ptr, y_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    bias = tl.load(bias_ptr + rows, mask=rows < M).to(tl.float32)
    offs = rows[:, None] * N + cols[None, :]  # [BLOCK_M, BLOCK_N]
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    v = tl.load(x_ptr + offs, mask=mask).to(tl.float32) + bias[:, None]
    y = v * 0.5 * (1.0 + tl.erf(v * 0.7071067811865476))
    tl.store(y_ptr + offs, y, mask=mask)


def bias_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_M, BLOCK_N = 8, 128
    grid = (triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M))
    bias_gelu_kernel[grid](x, bias, y, M, N, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N)
    return y
