# fault: the loop ends one block too early
# cause: last block|ends too early|the first block only
import torch
import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(
    logits_ptr, targets_ptr, loss_ptr,
    V,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    target = tl.load(targets_ptr + row)
    if target == -100:
        tl.store(loss_ptr + row, 0.0)
    else:
        logits_ptr += row * V
        largest = float("-inf")
        total = 0.0
        for start in range(0, V - BLOCK_V + 1, BLOCK_V):
            cols = start + tl.arange(0, BLOCK_V)
            x = tl.load(logits_ptr + cols, mask=cols < V, other=float("-inf")).to(tl.float32)
            grown = tl.maximum(largest, tl.max(x, axis=0))
            total = total * tl.exp(largest - grown) + tl.sum(tl.exp(x - grown), axis=0)
            largest = grown
        at_target = tl.load(logits_ptr + target).to(tl.float32)
        tl.store(loss_ptr + row, tl.log(total) + largest - at_target)


def cross_entropy(logits, targets):
    M, V = logits.shape
    loss = torch.empty(M, dtype=logits.dtype, device=logits.device)
    BLOCK_V = min(max(triton.next_power_of_2(V) // 2, 1), 1024)
    cross_entropy_kernel[(M,)](logits, targets, loss, V, BLOCK_V=BLOCK_V, num_warps=8)
    return loss
