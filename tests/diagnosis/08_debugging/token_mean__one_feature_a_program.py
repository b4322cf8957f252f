# fault: neighbouring lanes read tokens that lie D elements apart
# cause: neighbouring lanes must access neighbouring addresses
import torch
import triton
import triton.language as tl


@triton.jit
def token_mean_kernel(x_ptr, out_ptr, S, D, stride_xb, stride_xs, stride_xd, BLOCK: tl.constexpr):
    b, d = tl.program_id(0), tl.program_id(1)
    total = 0.0
    for start in range(0, S, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        ptrs = x_ptr + b * stride_xb + rows * stride_xs + d * stride_xd
        total += tl.sum(tl.load(ptrs, mask=rows < S, other=0.0).to(tl.float32))
    tl.store(out_ptr + b * D + d, total / S)


def token_mean(x: torch.Tensor) -> torch.Tensor:
    B, S, D = x.shape
    out = torch.empty((B, D), dtype=x.dtype, device=x.device)
    token_mean_kernel[(B, D)](x, out, S, D, *x.stride(), BLOCK=256)
    return out
