# fault: the term of a probability of 0 is 0 * log(0)
# cause: 0 \* log\(0\)
import torch
import triton
import triton.language as tl


@triton.jit
def entropy_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
    weights = tl.exp(x - tl.max(x, axis=0))
    p = weights / tl.sum(weights, axis=0)
    tl.store(out_ptr + row, -tl.sum(p * tl.log(p), axis=0))


def softmax_entropy(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    out = torch.empty(M, dtype=x.dtype, device=x.device)
    entropy_kernel[(M,)](x, out, N, BLOCK=triton.next_power_of_2(N), num_warps=8)
    return out
