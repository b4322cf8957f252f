# fault: the launcher passes 1 for the stride of dloss, which is 0 for a mean
# cause: each step of row moves by 1 element \(stride_dloss\), but the strides of dloss are \(0,\)
import torch
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
    row_ptr = logits_ptr + row * V
    target = tl.load(targets_ptr + row)
    if target == -100:
        for start in range(0, V, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            # Each logit is loaded once, also where it does not count.
            x = tl.load(row_ptr + cols, mask=cols < V, other=0.0)
            tl.store(row_ptr + cols, tl.zeros_like(x), mask=cols < V)
    else:
        dloss = tl.load(dloss_ptr + row * stride_dloss).to(tl.float32)
        lse = tl.load(lse_ptr + row)
        for start in range(0, V, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            x = tl.load(row_ptr + cols, mask=cols < V, other=float("-inf")).to(tl.float32)
            p = tl.exp(x - lse)
            grad = tl.where(cols == target, p - 1.0, p) * dloss
            tl.store(row_ptr + cols, grad, mask=cols < V)


def cross_entropy_backward(
    dloss: torch.Tensor, logits: torch.Tensor, targets: torch.Tensor, lse: torch.Tensor
) -> None:
    M, V = logits.shape
    BLOCK = min(4096, triton.next_power_of_2(V))
    stride_dloss = 1  # one number for each row
    cross_entropy_backward_kernel[(M,)](
        dloss, logits, targets, lse, V, stride_dloss, BLOCK=BLOCK, num_warps=8
    )
