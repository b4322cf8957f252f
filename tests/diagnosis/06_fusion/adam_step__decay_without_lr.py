# fault: the decay is not multiplied by lr
# cause: decay.* lr|lr.* decay
import torch
import triton
import triton.language as tl


@triton.jit
def adam_step_kernel(
    param_ptr, grad_ptr, exp_avg_ptr, exp_avg_sq_ptr,
    N,
    one_minus_beta1, beta2, one_minus_beta2, step_size, root_of_correction2, decay, eps,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    param = tl.load(param_ptr + offs, mask=mask).to(tl.float32) * decay
    grad = tl.load(grad_ptr + offs, mask=mask).to(tl.float32)
    exp_avg = tl.load(exp_avg_ptr + offs, mask=mask).to(tl.float32)
    exp_avg_sq = tl.load(exp_avg_sq_ptr + offs, mask=mask).to(tl.float32)
    exp_avg += (grad - exp_avg) * one_minus_beta1
    exp_avg_sq = exp_avg_sq * beta2 + grad * grad * one_minus_beta2
    param -= step_size * exp_avg / (tl.sqrt(exp_avg_sq) / root_of_correction2 + eps)
    tl.store(param_ptr + offs, param, mask=mask)
    tl.store(exp_avg_ptr + offs, exp_avg, mask=mask)
    tl.store(exp_avg_sq_ptr + offs, exp_avg_sq, mask=mask)


def adam_step(
    param: torch.Tensor,
    grad: torch.Tensor,
    exp_avg: torch.Tensor,
    exp_avg_sq: torch.Tensor,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
) -> None:
    N = param.numel()
    step_size = lr / (1 - beta1**step)
    root_of_correction2 = (1 - beta2**step) ** 0.5
    adam_step_kernel[(triton.cdiv(N, 1024),)](
        param, grad, exp_avg, exp_avg_sq, N,
        1 - beta1, beta2, 1 - beta2, step_size, root_of_correction2, 1 - weight_decay, eps,
        BLOCK=1024,
    )  # fmt: skip
