"""One block per program, on a grid of two axes, as in DeepSeek's own act_quant and weight_quant."""

import torch
import triton
import triton.language as tl


@triton.jit
def quantize_kernel(x_ptr, q_ptr, scale_ptr, M, N, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    offs_m = pid_m * ROWS + tl.arange(0, ROWS)
    offs_n = pid_n * COLUMNS + tl.arange(0, COLUMNS)
    offs = offs_m[:, None] * N + offs_n[None, :]
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    absmax = tl.max(tl.abs(x))
    scale = tl.where(absmax > 0, absmax / 448.0, 1.0)
    q = (x / scale).to(q_ptr.dtype.element_ty)
    tl.store(q_ptr + offs, q, mask=mask)
    tl.store(scale_ptr + pid_m * tl.cdiv(N, COLUMNS) + pid_n, scale)


def quantize_blocks(x, block=(1, 128)):
    M, N = x.shape
    ROWS, COLUMNS = block
    grid = (triton.cdiv(M, ROWS), triton.cdiv(N, COLUMNS))
    q = torch.empty((M, N), dtype=torch.float8_e4m3fn, device=x.device)
    scale = torch.empty(grid, dtype=torch.float32, device=x.device)
    num_warps = 1 if ROWS == 1 else 8
    quantize_kernel[grid](x, q, scale, M, N, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=num_warps)
    return q, scale
