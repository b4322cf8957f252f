"""12.5  Cross entropy, backward: one good answer.

Given lse, no part of a row needs another: rows are cut into blocks of 4 KB, each with a program of
its own. The gradient takes the place of the logits, and is rounded once. Rows that count for
nothing are set to 0 by tl.where, since what they hold may be NaN.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def cross_entropy_backward_kernel(
    dloss_ptr, logits_ptr, targets_ptr, lse_ptr,
    V,
    stride_dloss, stride_m, stride_v, stride_t, stride_lse,
    BLOCK: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(V, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    cols = (tl.program_id(0) % blocks).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < V
    target = tl.load(targets_ptr + row * stride_t)
    lse = tl.load(lse_ptr + row * stride_lse)
    dloss = tl.load(dloss_ptr + row * stride_dloss).to(tl.float32)
    kept = target != -100
    ptrs = logits_ptr + row * stride_m + cols * stride_v
    logits = tl.load(ptrs, mask=mask & kept, other=0.0).to(tl.float32)
    p = tl.exp(logits - lse)
    gradient = tl.where(cols == target, p - 1, p) * dloss
    # Not gradient * kept: what the row holds may be NaN.
    tl.store(ptrs, tl.where(kept, gradient, 0.0), mask=mask)


def cross_entropy_backward(
    dloss: torch.Tensor, logits: torch.Tensor, targets: torch.Tensor, lse: torch.Tensor
) -> None:
    if logits.dim() != 2 or logits.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            "logits must be 2-D and float16, bfloat16 or float32, "
            f"not {logits.dtype} {tuple(logits.shape)}"
        )
    M, V = logits.shape
    for name, tensor, dtypes in (
        ("dloss", dloss, (torch.float32, logits.dtype)),
        ("targets", targets, (torch.int32, torch.int64)),
        ("lse", lse, (torch.float32,)),
    ):
        if tensor.shape != (M,) or tensor.dtype not in dtypes:
            raise ValueError(
                f"{name} must be {' or '.join(map(str, dtypes))} {(M,)}, "
                f"not {tensor.dtype} {tuple(tensor.shape)}"
            )
    BLOCK = min(triton.next_power_of_2(V), 4096 // logits.element_size())
    cross_entropy_backward_kernel[(M * triton.cdiv(V, BLOCK),)](
        dloss, logits, targets, lse,
        V,
        dloss.stride(0), *logits.stride(), targets.stride(0), lse.stride(0),
        BLOCK=BLOCK,
    )  # fmt: skip
