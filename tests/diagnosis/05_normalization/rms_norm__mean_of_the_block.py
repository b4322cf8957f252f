# fault: the mean square divides by the block size
# cause: block size|division by
import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(x_ptr, weight_ptr, y_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask)
    rms = tl.sqrt(tl.sum(x * x, axis=0) / BLOCK + eps)
    y = (x / rms).to(weight.dtype) * weight
    tl.store(y_ptr + row * N + cols, y, mask=mask)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK = triton.next_power_of_2(N)
    num_warps = 4 if BLOCK < 2048 else 8
    rms_norm_kernel[(M,)](x, weight, y, N, eps, BLOCK=BLOCK, num_warps=num_warps)
    return y
