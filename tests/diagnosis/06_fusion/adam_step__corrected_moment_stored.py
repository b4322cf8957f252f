# fault: the bias-corrected first moment is stored as the state
# cause: stored after its bias correction
# never: left out

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
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    param = tl.load(param_ptr + offs, mask=mask).to(tl.float32)
    grad = tl.load(grad_ptr + offs, mask=mask).to(tl.float32)
    m = tl.load(exp_avg_ptr + offs, mask=mask).to(tl.float32)
    v = tl.load(exp_avg_sq_ptr + offs, mask=mask).to(tl.float32)
    m = beta1 * m + one_minus_beta1 * grad
    v = beta2 * v + one_minus_beta2 * grad * grad
    m_hat = m / correction1
    v_hat = v / correction2
    param = param * decay - lr * m_hat / (tl.sqrt(v_hat) + eps)
    tl.store(param_ptr + offs, param, mask=mask)
    tl.store(exp_avg_ptr + offs, m_hat, mask=mask)
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
    grid = (triton.cdiv(N, BLOCK),)
    adam_step_kernel[grid](
        param, grad, exp_avg, exp_avg_sq,
        N,
        beta1, 1 - beta1, beta2, 1 - beta2,
        1 - beta1**step, 1 - beta2**step, lr, 1 - lr * weight_decay, eps,
        BLOCK=BLOCK,
    )  # fmt: skip
