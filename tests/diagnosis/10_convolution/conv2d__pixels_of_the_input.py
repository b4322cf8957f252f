# fault: pixels are taken apart by the width of x
# cause: width of the result
import torch
import triton
import triton.language as tl


@triton.jit
def conv2d_kernel(
    x_ptr, weight_ptr, out_ptr,
    M, P, Q, C, H, W, K,
    stride_xn, stride_xc, stride_xh, stride_xw,
    stride_wk, stride_wc, stride_wr, stride_ws,
    stride, padding, dilation,
    R: tl.constexpr, S: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    n, p, q = offs_m // (P * Q), offs_m // W % P, offs_m % W
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, C * R * S, BLOCK_K):
        offs_k = start + tl.arange(0, BLOCK_K)
        c, r, s = offs_k % C, offs_k // C // S, offs_k // C % S
        h = p[:, None] * stride - padding + r[None, :] * dilation
        w = q[:, None] * stride - padding + s[None, :] * dilation
        x_ptrs = x_ptr + n[:, None] * stride_xn + c[None, :] * stride_xc
        x_mask = (h >= 0) & (h < H) & (w >= 0) & (w < W)
        x_mask &= (offs_m < M)[:, None] & (offs_k < C * R * S)[None, :]
        x = tl.load(x_ptrs + h * stride_xh + w * stride_xw, mask=x_mask, other=0.0)
        taps = c * stride_wc + r * stride_wr + s * stride_ws
        weight_ptrs = weight_ptr + offs_n[None, :] * stride_wk + taps[:, None]
        weight_mask = (offs_k < C * R * S)[:, None] & (offs_n < K)[None, :]
        weight = tl.load(weight_ptrs, mask=weight_mask, other=0.0)
        acc = tl.dot(x, weight, acc)
    out_ptrs = out_ptr + (n[:, None] * K + offs_n[None, :]) * (P * Q) + (offs_m % (P * Q))[:, None]
    tl.store(out_ptrs, acc, mask=(offs_m < M)[:, None] & (offs_n < K)[None, :])


def conv2d(x, weight, stride=1, padding=0, dilation=1, groups=1):
    (N, C, H, W), (K, _, R, S) = x.shape, weight.shape
    P = (H + 2 * padding - dilation * (R - 1) - 1) // stride + 1
    Q = (W + 2 * padding - dilation * (S - 1) - 1) // stride + 1
    out = torch.empty((N, K, P, Q), dtype=x.dtype, device=x.device)
    conv2d_kernel[(triton.cdiv(N * P * Q, 128), triton.cdiv(K, 128))](
        x, weight, out, N * P * Q, P, Q, C, H, W, K, *x.stride(), *weight.stride(),
        stride, padding, dilation, R=R, S=S, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8,
    )  # fmt: skip
    return out
