# fault: the first tap meets the newest element
# cause: filter is turned
import torch
import triton
import triton.language as tl


@triton.jit
def causal_conv1d_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr,
    D, L,
    stride_xb, stride_xd, stride_xl,
    W: tl.constexpr, ACTIVATION: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_L: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(2)
    offs_d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    offs_l = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)
    mask_d, mask_l = (offs_d < D)[:, None], (offs_l < L)[None, :]
    x_ptrs = x_ptr + batch * stride_xb + offs_d[:, None] * stride_xd
    bias = tl.load(bias_ptr + offs_d, mask=offs_d < D, other=0.0).to(tl.float32)
    acc = tl.zeros((BLOCK_D, BLOCK_L), dtype=tl.float32) + bias[:, None]
    for w in tl.static_range(W):
        past = (offs_l - (W - 1) + w)[None, :]
        x = tl.load(x_ptrs + past * stride_xl, mask=mask_d & mask_l & (past >= 0), other=0.0)
        weight = tl.load(weight_ptr + offs_d * W + W - 1 - w, mask=offs_d < D, other=0.0)
        acc += x.to(tl.float32) * weight.to(tl.float32)[:, None]
    if ACTIVATION == "silu":
        acc = acc * tl.sigmoid(acc)
    out_ptrs = out_ptr + (batch * D + offs_d[:, None]) * L + offs_l[None, :]
    tl.store(out_ptrs, acc, mask=mask_d & mask_l)


def causal_conv1d(x, weight, bias, activation=None):
    (B, D, L), W = x.shape, weight.shape[1]
    out = torch.empty((B, D, L), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(L, 128), triton.cdiv(D, 32), B)
    causal_conv1d_kernel[grid](
        x, weight, bias, out, D, L, *x.stride(),
        W=W, ACTIVATION=activation, BLOCK_D=32, BLOCK_L=128,
    )  # fmt: skip
    return out
