"""08.3  Last tokens: one good answer.

The fault was products of two int32, which wrap around beyond 2**31 elements. Ours gives each
product an int64 factor of its own; to widen their sum is too late.
"""

import torch
import triton
import triton.language as tl

TILE_BYTES = 4096


@triton.jit
def last_tokens_kernel(
    x_ptr, lengths_ptr, out_ptr,
    D, tiles,
    stride_xb, stride_xs, stride_xd, stride_l,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    b = pid // tiles
    offs_d = (pid % tiles).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs_d < D
    last = tl.load(lengths_ptr + b * stride_l) - 1
    # Fixed: b, last and both strides are int32, and each product wraps around beyond 2**31
    # elements. Each needs an int64 factor; to widen their sum is too late.
    token = b.to(tl.int64) * stride_xb + last.to(tl.int64) * stride_xs
    row = tl.load(x_ptr + token + offs_d * stride_xd, mask=mask, other=0.0)
    tl.store(out_ptr + b.to(tl.int64) * D + offs_d, row, mask=mask)


def last_tokens(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    if x.dim() != 3 or x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"x must be 3-D and float16, bfloat16 or float32, not {x.dtype} {tuple(x.shape)}"
        )
    B, _, D = x.shape
    if lengths.shape != (B,) or lengths.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"lengths must be int32 or int64 ({B},), not {lengths.dtype} {tuple(lengths.shape)}"
        )
    out = torch.empty((B, D), dtype=x.dtype, device=x.device)
    BLOCK = min(triton.next_power_of_2(max(D, 1)), TILE_BYTES // x.element_size())
    tiles = triton.cdiv(D, BLOCK)
    last_tokens_kernel[(B * tiles,)](
        x, lengths, out, D, tiles, *x.stride(), lengths.stride(0), BLOCK=BLOCK
    )
    return out
