# fault: the products wrap around before their sum is widened
# cause: 2\*\*32 too small
import torch
import triton
import triton.language as tl


@triton.jit
def last_tokens_kernel(
    x_ptr, lengths_ptr, out_ptr, D, stride_xb, stride_xs, stride_xd, BLOCK: tl.constexpr
):
    b = tl.program_id(0)
    last = tl.load(lengths_ptr + b) - 1
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    token = (b * stride_xb + last * stride_xs).to(tl.int64)
    x = tl.load(x_ptr + token + cols.to(tl.int64) * stride_xd, mask=cols < D)
    tl.store(out_ptr + b * D + cols, x, mask=cols < D)


def last_tokens(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    B, _, D = x.shape
    out = torch.empty((B, D), dtype=x.dtype, device=x.device)
    grid = (B, triton.cdiv(D, 1024))
    last_tokens_kernel[grid](x, lengths, out, D, *x.stride(), BLOCK=1024)
    return out
