# fault: the stored total is x
# cause: residual is left out|x is stored|is left out
import torch
import triton
import triton.language as tl


@triton.jit
def residual_rms_norm_kernel(
    x_ptr, residual_ptr, weight_ptr, y_ptr, total_ptr, N, eps, BLOCK: tl.constexpr
):
    start = tl.program_id(0) * N
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + start + cols, mask=mask, other=0.0)
    residual = tl.load(residual_ptr + start + cols, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + cols, mask=mask)
    total = x + residual
    tl.store(total_ptr + start + cols, x, mask=mask)
    total = total.to(tl.float32)
    rstd = tl.rsqrt(tl.sum(total * total, axis=0) / N + eps)
    tl.store(y_ptr + start + cols, (total * rstd).to(weight.dtype) * weight, mask=mask)


def residual_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    M, N = x.shape
    y, total = torch.empty_like(x), torch.empty_like(x)
    BLOCK = triton.next_power_of_2(N)
    residual_rms_norm_kernel[(M,)](
        x, residual, weight, y, total, N, eps, BLOCK=BLOCK, num_warps=4 if BLOCK < 2048 else 8
    )
    return y, total
