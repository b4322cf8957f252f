# fault: the logits are clipped to +-80, which hides the NaN and changes the distribution
# cause: clipped to \+-80
import torch
import triton
import triton.language as tl


@triton.jit
def entropy_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
    x = tl.clamp(x, -80.0, 80.0)
    x = tl.where(mask, x, -float("inf"))
    weights = tl.exp(x - tl.max(x, axis=0))
    p = weights / tl.sum(weights, axis=0)
    tl.store(out_ptr + row, -tl.sum(tl.where(p > 0, p * tl.log(p), 0.0), axis=0))


def softmax_entropy(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    out = torch.empty(M, dtype=x.dtype, device=x.device)
    entropy_kernel[(M,)](x, out, N, BLOCK=triton.next_power_of_2(N), num_warps=8)
    return out
