# fault: P and Q are computed as if the window were R x S whatever the dilation
# cause: that is the shape for dilation = 1, and dilation is 2

import torch
import triton
import triton.language as tl

Pair = int | tuple[int, int]


@triton.jit
def conv2d_kernel(
    x_ptr, weight_ptr, out_ptr,
    NPQ, PQ, Q, C, H, W, K,
    stride_xn, stride_xc, stride_xh, stride_xw,
    stride_wk, stride_wc, stride_wr, stride_ws,
    stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w,
    R: tl.constexpr, S: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    blocks_f = tl.cdiv(K, BLOCK_F)
    pid = tl.program_id(0)
    filters = (pid % blocks_f * BLOCK_F + tl.arange(0, BLOCK_F)).to(tl.int64)
    pixels = (pid // blocks_f).to(tl.int64) * BLOCK_P + tl.arange(0, BLOCK_P)
    n, p, q = pixels // PQ, pixels % PQ // Q, pixels % Q
    acc = tl.zeros([BLOCK_F, BLOCK_P], tl.float32)
    for r in range(R):
        for s in range(S):
            h = p * stride_h - padding_h + r * dilation_h
            w = q * stride_w - padding_w + s * dilation_w
            inside = (pixels < NPQ) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
            image = n * stride_xn + h * stride_xh + w * stride_xw
            for start in range(0, C, BLOCK_K):
                c = (start + tl.arange(0, BLOCK_K)).to(tl.int64)
                x = tl.load(
                    x_ptr + image[None, :] + c[:, None] * stride_xc,
                    mask=inside[None, :] & (c < C)[:, None], other=0.0,
                )  # fmt: skip
                weight = tl.load(
                    weight_ptr + filters[:, None] * stride_wk + c[None, :] * stride_wc
                    + r * stride_wr + s * stride_ws,
                    mask=(filters < K)[:, None] & (c < C)[None, :], other=0.0,
                )  # fmt: skip
                acc = tl.dot(weight, x, acc)
    out = out_ptr + (n * K * PQ + pixels % PQ)[None, :] + filters[:, None] * PQ
    tl.store(out, acc, mask=(filters < K)[:, None] & (pixels < NPQ)[None, :])


def conv2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> torch.Tensor:
    def pair(value):
        return (value, value) if isinstance(value, int) else tuple(value)

    if groups != 1:
        raise ValueError(f"groups must be 1, not {groups}")
    stride, padding, dilation = pair(stride), pair(padding), pair(dilation)
    N, C, H, W = x.shape
    K, _, R, S = weight.shape
    P = (H + 2 * padding[0] - R) // stride[0] + 1
    Q = (W + 2 * padding[1] - S) // stride[1] + 1
    out = torch.empty((N, K, P, Q), dtype=x.dtype, device=x.device)
    BLOCK_F, BLOCK_P, BLOCK_K = 64, 64, 32
    grid = (triton.cdiv(K, BLOCK_F) * triton.cdiv(N * P * Q, BLOCK_P),)
    conv2d_kernel[grid](
        x, weight, out, N * P * Q, P * Q, Q, C, H, W, K, *x.stride(), *weight.stride(),
        *stride, *padding, *dilation,
        R=R, S=S, BLOCK_F=BLOCK_F, BLOCK_P=BLOCK_P, BLOCK_K=BLOCK_K,
    )  # fmt: skip
    return out
