"""06.6  Adam step

One step of AdamW on one tensor: seven trips to memory, where separate operations make some forty.

    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    param = param - lr * weight_decay * param
    param = param - lr * (m / (1 - beta1**step)) / (sqrt(v / (1 - beta2**step)) + eps)
    where m is exp_avg and v is exp_avg_sq          PyTorch: torch.optim.AdamW
    source: Loshchilov, Hutter, "Decoupled Weight Decay Regularization" (2019)

Given     param, grad, exp_avg, exp_avg_sq (N,): float16, bfloat16 or float32, all of one dtype,
          contiguous, N >= 1; step: counts from 1; lr, beta1, beta2, eps, weight_decay: floats
Return    None: param, exp_avg and exp_avg_sq are changed in place, each rounded once. The update
          is computed in float32, from m and v before they are rounded
New here  a kernel that changes its inputs; scalars that the launcher computes in float64, because
          1 - 0.999 has a relative error of 1e-5 in float32
Traffic   4 loads and 3 stores per element, coalesced, one launch
Speed     at least 2x the speed of the formulas in PyTorch at 64 Mi float32 elements

Run       pytest puzzles/06_fusion/test_adam_step.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    up to 4 dimensions, including 0; strides of any kind, which may differ from tensor to
          tensor
Sizes     empty tensors; offsets beyond 2**31 elements; more than 65535 rows
Dtypes    exp_avg and exp_avg_sq: each of the dtype of param or float32; options may be ints
Values    NaN and inf as in PyTorch; gradients of 0
Raise     ValueError that names param if it has more than 4 dimensions or another dtype,
          grad, exp_avg or exp_avg_sq if its shape or dtype does not fit, and step if it is below 1.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/06_fusion/production/test_adam_step.py
"""

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
    # TODO: one program updates BLOCK elements
    pass


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
    raise NotImplementedError  # TODO: compute the scalars, choose a grid, launch
