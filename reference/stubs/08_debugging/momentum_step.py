"""08.6  Momentum step

Fix a kernel that is wrong the first time only.

    velocity = momentum * velocity + grad
    param    = param - lr * velocity          with the velocity before it is rounded

Report    "After each restart the loss jumps in the very first step, then it trains on as if nothing
          had happened. It jumps again when a layer of a new size appears. With one config in the
          list it does not happen, but that config is slow for small layers."
Given     param, grad, velocity: float16, bfloat16 or float32, of one shape and dtype, contiguous;
          lr and momentum: numbers
Return    None; param and velocity are changed in place, computed in float32 and rounded once. The
          kernel stays autotuned, with at least 3 configs
New here  TRITON_PRINT_AUTOTUNING=1 prints when Triton tunes; what tuning does to the arguments of
          a kernel, and the autotuner's options for that
Traffic   3 loads and 2 stores per element, coalesced, one launch
Speed     at least 1.6x the speed of PyTorch at 2**26 float32 elements

Run       pytest puzzles/08_debugging/test_momentum_step.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    unaligned views
Sizes     a scalar (0-D), no elements; each size is tuned for itself
Values    NaN and inf as in PyTorch; lr and momentum may be whole numbers
Raise     ValueError that names param, grad or velocity if it is not contiguous, or has another
          dtype or shape than param.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/08_debugging/production/test_momentum_step.py
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


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 256}, num_warps=2),
        triton.Config({"BLOCK": 1024}, num_warps=4),
        triton.Config({"BLOCK": 4096}, num_warps=8),
    ],
    key=["N"],
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
