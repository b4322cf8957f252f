# One program a row, in a loop over blocks; rows that count for nothing return early.

import triton
import triton.language as tl


@triton.jit
def cross_entropy_backward_kernel(
    dloss_ptr, logits_ptr, targets_ptr, lse_ptr,
    V,
    stride_dloss,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    logits_ptr += row * V
    target = tl.load(targets_ptr + row)
    if target == -100:
        for start in range(0, V, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            tl.store(logits_ptr + cols, 0.0, mask=cols < V)
        return
    lse = tl.load(lse_ptr + row)
    dloss = tl.load(dloss_ptr + row * stride_dloss)
    for start in range(0, V, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + cols, mask=cols < V, other=-float("inf")).to(tl.float32)
        probability = tl.exp(x - lse)
        gradient = (probability - (cols == target).to(tl.float32)) * dloss
        tl.store(logits_ptr + cols, gradient, mask=cols < V)


def cross_entropy_backward(dloss, logits, targets, lse):
    M, V = logits.shape
    cross_entropy_backward_kernel[(M,)](
        dloss, logits, targets, lse, V, dloss.stride(0), BLOCK=8192, num_warps=16
    )
