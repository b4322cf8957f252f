"""08.6  Momentum step: one good answer.

The fault was that Triton times each configuration on the tensors themselves, so that each of those
runs was a step of its own. Ours has them restored: restore_value copies what the kernel changes,
and puts it back after each run.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def step(param_ptrs, grad_ptrs, velocity_ptrs, lr, momentum, mask):
    param = tl.load(param_ptrs, mask=mask).to(tl.float32)
    grad = tl.load(grad_ptrs, mask=mask).to(tl.float32)
    velocity = tl.load(velocity_ptrs, mask=mask).to(tl.float32)
    velocity = momentum * velocity + grad
    tl.store(velocity_ptrs, velocity, mask=mask)
    tl.store(param_ptrs, param - lr * velocity, mask=mask)


# Fixed: Triton times each config on the tensors themselves, and each of those runs was a step of
# its own. What the kernel changes is copied before, and put back after each run.
@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 256}, num_warps=2),
        triton.Config({"BLOCK": 1024}, num_warps=4),
        triton.Config({"BLOCK": 4096}, num_warps=8),
    ],
    key=["N"],
    restore_value=["param_ptr", "velocity_ptr"],
)
@triton.jit
def momentum_step_kernel(
    param_ptr, grad_ptr, velocity_ptr,
    N,
    lr, momentum,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    # A mask ends anywhere, and makes each element a load of its own: whole blocks have none.
    if (tl.program_id(0) + 1).to(tl.int64) * BLOCK <= N:
        step(param_ptr + offs, grad_ptr + offs, velocity_ptr + offs, lr, momentum, None)
    else:
        step(param_ptr + offs, grad_ptr + offs, velocity_ptr + offs, lr, momentum, offs < N)


def momentum_step(
    param: torch.Tensor, grad: torch.Tensor, velocity: torch.Tensor, lr: float, momentum: float
) -> None:
    if param.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"param must be float16, bfloat16 or float32, not {param.dtype}")
    for name, tensor in (("param", param), ("grad", grad), ("velocity", velocity)):
        if tensor.shape != param.shape or tensor.dtype != param.dtype:
            raise ValueError(
                f"{name} must be {param.dtype} {tuple(param.shape)} as param is, "
                f"not {tensor.dtype} {tuple(tensor.shape)}"
            )
        if not tensor.is_contiguous():
            raise ValueError(f"{name} must be contiguous, its strides are {tensor.stride()}")
    N = param.numel()
    # Floats, since Triton would compile the kernel anew for an int of 1 or one that 16 divides.
    momentum_step_kernel[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)](
        param, grad, velocity, N, float(lr), float(momentum)
    )
