# fault: the autotuner runs steps on the parameters while it times the configs
# cause: the autotuner has run it before
import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": b}) for b in (512, 1024, 2048)], key=["N"])
@triton.jit
def step_kernel(param_ptr, grad_ptr, velocity_ptr, N, lr, momentum, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    grad = tl.load(grad_ptr + offs, mask=mask).to(tl.float32)
    velocity = tl.load(velocity_ptr + offs, mask=mask).to(tl.float32) * momentum + grad
    param = tl.load(param_ptr + offs, mask=mask).to(tl.float32) - lr * velocity
    tl.store(param_ptr + offs, param, mask=mask)
    tl.store(velocity_ptr + offs, velocity, mask=mask)


def momentum_step(
    param: torch.Tensor, grad: torch.Tensor, velocity: torch.Tensor, lr: float, momentum: float
) -> None:
    N = param.numel()
    step_kernel[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)](
        param, grad, velocity, N, float(lr), float(momentum)
    )
