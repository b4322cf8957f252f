# fault: the root is taken of v alone and then divided by 1 - beta2**step
# cause: corrected outside of the square root
# never: square root of the second moment is not taken

import torch
import triton
import triton.language as tl


@triton.jit
def adam_step_kernel(
    param_ptr, grad_ptr, exp_avg_ptr, exp_avg_sq_ptr,
    N,
    beta1, one_minus_beta1, beta2, one_minus_beta2,
    correction1, correction2, lr, decay, eps,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    param = tl.load(param_ptr + offs, mask=mask).to(tl.float32)
    grad = tl.load(grad_ptr + offs, mask=mask).to(tl.float32)
    m = tl.load(exp_avg_ptr + offs, mask=mask).to(tl.float32)
    v = tl.load(exp_avg_sq_ptr + offs, mask=mask).to(tl.float32)
    m = beta1 * m + one_minus_beta1 * grad
    v = beta2 * v + one_minus_beta2 * grad * grad
    param -= decay * param
    param -= lr * (m / correction1) / (tl.sqrt(v) / correction2 + eps)
    tl.store(param_ptr + offs, param, mask=mask)
    tl.store(exp_avg_ptr + offs, m, mask=mask)
    tl.store(exp_avg_sq_ptr + offs, v, mask=mask)


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
    BLOCK = 1024
    adam_step_kernel[(triton.cdiv(N, BLOCK),)](
        param, grad, exp_avg, exp_avg_sq,
        N,
        beta1, 1 - beta1, beta2, 1 - beta2,
        1 - beta1**step, 1 - beta2**step, lr, lr * weight_decay, eps,
        BLOCK=BLOCK,
    )  # fmt: skip
