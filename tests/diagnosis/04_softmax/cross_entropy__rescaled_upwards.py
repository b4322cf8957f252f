# fault: the sum is rescaled the wrong way round
# cause: the sum is rescaled by exp\(new - old maximum\) instead

import torch
import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(
    logits_ptr, targets_ptr, loss_ptr,
    V,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    offs = tl.arange(0, BLOCK_V)
    x = tl.load(logits_ptr + row * V + offs, mask=offs < V, other=float("-inf")).to(tl.float32)
    m = tl.maximum(tl.max(x, axis=0), -3.0e38)
    total = tl.sum(tl.exp(x - m), axis=0)
    for start in range(BLOCK_V, V, BLOCK_V):
        offs = start + tl.arange(0, BLOCK_V)
        x = tl.load(logits_ptr + row * V + offs, mask=offs < V, other=float("-inf"))
        x = x.to(tl.float32)
        m_new = tl.maximum(m, tl.max(x, axis=0))
        total = total * tl.exp(m_new - m) + tl.sum(tl.exp(x - m_new), axis=0)
        m = m_new
    target = tl.load(targets_ptr + row)
    logit = tl.load(logits_ptr + row * V + target, mask=target != -100, other=0.0)
    loss = m + tl.log(total) - logit.to(tl.float32)
    tl.store(loss_ptr + row, tl.where(target == -100, 0.0, loss))


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    M, V = logits.shape
    loss = torch.empty(M, dtype=logits.dtype, device=logits.device)
    BLOCK_V = min(1024, triton.next_power_of_2(V))
    cross_entropy_kernel[(M,)](logits, targets, loss, V, BLOCK_V=BLOCK_V)
    return loss
