"""06.6  Adam step: one good answer.

Whole blocks go without a mask, because one that may end anywhere makes each element a load of its
own; only the last program has one. The launcher subtracts the betas from 1 in float64, since 1 -
0.999 in float32 has a relative error of 1e-5. Scalars are passed as floats, for which Triton does
not compile the kernel again.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def adam_block(
    param_ptrs, grad_ptrs, m_ptrs, v_ptrs, mask,
    beta1, one_minus_beta1, beta2, one_minus_beta2,
    correction1, correction2, lr, decay, eps,
):  # fmt: skip
    param = tl.load(param_ptrs, mask=mask).to(tl.float32)
    grad = tl.load(grad_ptrs, mask=mask).to(tl.float32)
    m = tl.load(m_ptrs, mask=mask).to(tl.float32)
    v = tl.load(v_ptrs, mask=mask).to(tl.float32)

    m = beta1 * m + one_minus_beta1 * grad
    v = beta2 * v + one_minus_beta2 * grad * grad
    update = (m / correction1) / (tl.sqrt(v / correction2) + eps)
    param = decay * param - lr * update

    tl.store(param_ptrs, param, mask=mask)
    tl.store(m_ptrs, m, mask=mask)
    tl.store(v_ptrs, v, mask=mask)


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
    pid = tl.program_id(0).to(tl.int64)
    offs = pid * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    i3 = offs % size_3
    i2 = offs // size_3 % size_2
    i1 = offs // (size_3 * size_2) % size_1
    i0 = offs // (size_3 * size_2 * size_1)
    param_ptrs = param_ptr + i0 * stride_p0 + i1 * stride_p1 + i2 * stride_p2 + i3 * stride_p3
    grad_ptrs = grad_ptr + i0 * stride_g0 + i1 * stride_g1 + i2 * stride_g2 + i3 * stride_g3
    m_ptrs = exp_avg_ptr + i0 * stride_m0 + i1 * stride_m1 + i2 * stride_m2 + i3 * stride_m3
    v_ptrs = exp_avg_sq_ptr + i0 * stride_v0 + i1 * stride_v1 + i2 * stride_v2 + i3 * stride_v3
    # Whole blocks have no mask: with one that may end anywhere, each element is a load of its own.
    if (pid + 1) * BLOCK <= N:
        adam_block(
            param_ptrs, grad_ptrs, m_ptrs, v_ptrs, None,
            beta1, one_minus_beta1, beta2, one_minus_beta2,
            correction1, correction2, lr, decay, eps,
        )  # fmt: skip
    else:
        adam_block(
            param_ptrs, grad_ptrs, m_ptrs, v_ptrs, offs < N,
            beta1, one_minus_beta1, beta2, one_minus_beta2,
            correction1, correction2, lr, decay, eps,
        )  # fmt: skip


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
    if param.dim() > 4 or param.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            "param must be float16, bfloat16 or float32 with at most 4 dimensions, "
            f"not {param.dtype} {tuple(param.shape)}"
        )
    for name, other, dtypes in (
        ("grad", grad, (param.dtype,)),
        ("exp_avg", exp_avg, (param.dtype, torch.float32)),
        ("exp_avg_sq", exp_avg_sq, (param.dtype, torch.float32)),
    ):
        if other.shape != param.shape or other.dtype not in dtypes:
            raise ValueError(
                f"{name} must be {tuple(param.shape)} of {' or '.join(map(str, dtypes))}, "
                f"not {other.dtype} {tuple(other.shape)}"
            )
    if step < 1:
        raise ValueError(f"step counts from 1, and is {step}")
    tensors = (param, grad, exp_avg, exp_avg_sq)
    N = param.numel()
    if all(tensor.is_contiguous() for tensor in tensors):
        tensors = [tensor.view(-1) for tensor in tensors]
    missing = 4 - tensors[0].dim()
    sizes = (*tensors[0].shape, *[1] * missing)
    strides = [(*tensor.stride(), *[0] * missing) for tensor in tensors]
    # In float64, since 1 - 0.999 in float32 has a relative error of 1e-5. And floats, since Triton
    # would compile the kernel anew for an int of 1 and for one that 16 divides.
    scalars = (
        beta1, 1 - beta1, beta2, 1 - beta2,
        1 - beta1**step, 1 - beta2**step, lr, 1 - lr * weight_decay, eps,
    )  # fmt: skip
    BLOCK = 1024
    adam_step_kernel[(triton.cdiv(N, BLOCK),)](
        *tensors, N, *sizes[1:], *strides[0], *strides[1], *strides[2], *strides[3],
        *map(float, scalars), BLOCK=BLOCK,
    )  # fmt: skip
