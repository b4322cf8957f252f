# fault: eps is added to the sum of squares before the division by N
# cause: \(squares \+ eps\) / N: with squares / N \+ eps in its place
import torch
import triton
import triton.language as tl


@triton.jit
def residual_rms_norm_kernel(
    x_ptr, residual_ptr, weight_ptr, y_ptr, total_ptr,
    M, N, eps,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)[:, None]
    cols = tl.arange(0, BLOCK_N)[None, :]
    mask = (rows < M) & (cols < N)
    offs = rows * N + cols
    weight = tl.load(weight_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    residual = tl.load(residual_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    total = x + residual
    tl.store(total_ptr + offs, total, mask=mask)
    squares = tl.sum(total * total, axis=1, keep_dims=True)
    rstd = tl.rsqrt((squares + eps) / N)
    tl.store(y_ptr + offs, total * rstd * weight, mask=mask)


def residual_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    M, N = x.shape
    y = torch.empty_like(x)
    total = torch.empty_like(x)
    BLOCK_N = triton.next_power_of_2(N)
    BLOCK_M = max(1, 2048 // BLOCK_N)
    num_warps = 8 if BLOCK_N >= 4096 else 4
    residual_rms_norm_kernel[(triton.cdiv(M, BLOCK_M),)](
        x, residual, weight, y, total, M, N, eps,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=num_warps,
    )  # fmt: skip
    return y, total
