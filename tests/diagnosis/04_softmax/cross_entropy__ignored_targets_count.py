# fault: rows whose target is -100 get a loss like any other
# cause: ignored|-100
import torch
import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(logits_ptr, targets_ptr, loss_ptr, V, BLOCK_V: tl.constexpr):
    row = tl.program_id(0)
    target = tl.load(targets_ptr + row)
    cols = tl.arange(0, BLOCK_V)
    x = tl.load(logits_ptr + row * V + cols, mask=cols < V, other=float("-inf")).to(tl.float32)
    largest = tl.max(x, axis=0)
    total = tl.sum(tl.exp(x - largest), axis=0)
    at_target = tl.sum(tl.where(cols == target, x, 0.0), axis=0)
    tl.store(loss_ptr + row, tl.log(total) + largest - at_target)


def cross_entropy(logits, targets):
    M, V = logits.shape
    loss = torch.empty(M, dtype=logits.dtype, device=logits.device)
    cross_entropy_kernel[(M,)](logits, targets, loss, V, BLOCK_V=triton.next_power_of_2(V))
    return loss
