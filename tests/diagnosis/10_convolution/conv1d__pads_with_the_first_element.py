# fault: times before 0 are clamped to 0 and so read x[b, d, 0]
# cause: count as the first element instead of 0

import torch
import triton
import triton.language as tl


@triton.jit
def causal_conv1d_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr,
    B, D, L,
    stride_xb, stride_xd, stride_xl,
    W: tl.constexpr, ACTIVATION: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_L: tl.constexpr,
):  # fmt: skip
    blocks_d, blocks_l = tl.cdiv(D, BLOCK_D), tl.cdiv(L, BLOCK_L)
    pid = tl.program_id(0)
    b = (pid // (blocks_d * blocks_l)).to(tl.int64)
    d = (pid // blocks_l % blocks_d * BLOCK_D + tl.arange(0, BLOCK_D)).to(tl.int64)
    t = (pid % blocks_l * BLOCK_L + tl.arange(0, BLOCK_L)).to(tl.int64)
    mask = (d < D)[:, None] & (t < L)[None, :]
    bias = tl.load(bias_ptr + d, mask=d < D, other=0.0).to(tl.float32)
    acc = tl.zeros([BLOCK_D, BLOCK_L], tl.float32) + bias[:, None]
    for w in tl.static_range(W):
        weight = tl.load(weight_ptr + d * W + w, mask=d < D, other=0.0).to(tl.float32)
        time = tl.maximum(t - (W - 1) + w, 0)
        pointers = x_ptr + b * stride_xb + d[:, None] * stride_xd + time[None, :] * stride_xl
        x = tl.load(pointers, mask=mask, other=0.0).to(tl.float32)
        acc += weight[:, None] * x
    if ACTIVATION == "silu":
        acc = acc * tl.sigmoid(acc)
    tl.store(out_ptr + (b * D + d)[:, None] * L + t[None, :], acc, mask=mask)


def causal_conv1d(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, activation: str | None = None
) -> torch.Tensor:
    B, D, L = x.shape
    W = weight.shape[1]
    out = torch.empty((B, D, L), dtype=x.dtype, device=x.device)
    BLOCK_D, BLOCK_L = (1, 512) if x.stride(2) == 1 else (32, 32)
    grid = (B * triton.cdiv(D, BLOCK_D) * triton.cdiv(L, BLOCK_L),)
    causal_conv1d_kernel[grid](
        x, weight, bias, out, B, D, L, *x.stride(),
        W=W, ACTIVATION=activation, BLOCK_D=BLOCK_D, BLOCK_L=BLOCK_L,
    )  # fmt: skip
    return out
