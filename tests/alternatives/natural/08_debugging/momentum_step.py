"""One block size and several numbers of warps; the velocity by tl.fma."""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({}, num_warps=warps) for warps in (2, 4, 8)],
    key=["N"],
    restore_value=["velocity_ptr", "param_ptr"],
)
@triton.jit
def step_kernel(velocity_ptr, param_ptr, grad_ptr, N, lr, momentum, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    grad = tl.load(grad_ptr + offs, mask=mask).to(tl.float32)
    velocity = tl.fma(tl.load(velocity_ptr + offs, mask=mask).to(tl.float32), momentum, grad)
    param = tl.load(param_ptr + offs, mask=mask) - velocity * lr
    tl.store(param_ptr + offs, param, mask=mask)
    tl.store(velocity_ptr + offs, velocity, mask=mask)


def momentum_step(
    param: torch.Tensor, grad: torch.Tensor, velocity: torch.Tensor, lr: float, momentum: float
) -> None:
    N = param.numel()
    grid = (triton.cdiv(N, 1024),)
    step_kernel[grid](velocity, param, grad, N, float(lr), float(momentum), BLOCK=1024)
