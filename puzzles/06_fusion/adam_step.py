"""06.6  Adam step

One step of AdamW on one tensor: seven trips to memory, where separate operations make some forty.

    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    param = param - lr * weight_decay * param
    param = param - lr * (m / (1 - beta1**step)) / (sqrt(v / (1 - beta2**step)) + eps)
    where m is exp_avg and v is exp_avg_sq          PyTorch: torch.optim.AdamW
    source: Loshchilov, Hutter, "Decoupled Weight Decay Regularization" (2019)

Given     param, grad, exp_avg, exp_avg_sq of one shape, up to 4-D, any strides
          param and grad of one dtype: float16, bfloat16 or float32; exp_avg and exp_avg_sq: each
          of that dtype or float32
          step: counts from 1
          lr, beta1, beta2, eps, weight_decay: Python numbers
Return    None: param, exp_avg and exp_avg_sq are changed in place, each rounded once. The step is
          computed in float32, from m and v before they are rounded
Raise     ValueError that names param if it has more than 4 dimensions or another dtype,
          grad, exp_avg or exp_avg_sq if its shape or dtype does not fit, and step if it is below 1
New here  a kernel that changes its inputs; scalars that the launcher computes in float64, since
          1 - 0.999 in float32 has a relative error of 1e-5
Traffic   4 loads and 3 stores an element, one launch
Speed     at least 4x of the formulas in PyTorch at 64 Mi float32 elements

Run       pytest puzzles/06_fusion/test_adam_step.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def adam_step_kernel(
    param_ptr, grad_ptr, exp_avg_ptr, exp_avg_sq_ptr,
    N, size_1, size_2, size_3,
    stride_p0, stride_p1, stride_p2, stride_p3,
    stride_g0, stride_g1, stride_g2, stride_g3,
    stride_m0, stride_m1, stride_m2, stride_m3,
    stride_v0, stride_v1, stride_v2, stride_v3,
    beta1, one_minus_beta1, beta2, one_minus_beta2,
    correction1, correction2, lr, decay, eps,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program updates BLOCK elements, counted in row-major order
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
    raise NotImplementedError  # TODO: check the inputs, compute the scalars, choose a grid, launch
