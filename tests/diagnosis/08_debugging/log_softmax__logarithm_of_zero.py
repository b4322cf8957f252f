# fault: the logarithm of the softmax is taken, which is 0 for most elements
# cause: logarithm of 0|log\(0\)
import torch
import triton
import triton.language as tl


@triton.jit
def log_softmax_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
    weights = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * N + cols, tl.log(weights / tl.sum(weights, axis=0)), mask=cols < N)


def log_softmax(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)
    log_softmax_kernel[(M,)](x, y, N, BLOCK=triton.next_power_of_2(N), num_warps=16)
    return y
