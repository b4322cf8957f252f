# fault: the mask of x checks the rows of the image only
# cause: mask with w >= 0
# never: compare with that|whole tile
from __future__ import annotations

import torch
import triton
import triton.language as tl

Pair = int | tuple[int, int]


@triton.jit
def conv2d_dweight_kernel(
    dy_ptr, x_ptr, partial_ptr,
    NPQ, P, Q, C, H, W, K, length, size,
    stride_dn, stride_dk, stride_dp, stride_dq,
    stride_xn, stride_xc, stride_xh, stride_xw,
    stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w,
    R: tl.constexpr, S: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(2)
    tiles_c = tl.cdiv(C, BLOCK_C)
    offs_f = tl.program_id(0) // tiles_c * BLOCK_F + tl.arange(0, BLOCK_F)
    offs_c = tl.program_id(0) % tiles_c * BLOCK_C + tl.arange(0, BLOCK_C)
    r = tl.program_id(1) // S
    s = tl.program_id(1) % S
    end = tl.minimum((part + 1) * length, NPQ)
    acc = tl.zeros((BLOCK_F, BLOCK_C), dtype=tl.float32)
    for start in range(part * length, end, BLOCK_P):
        offs_p = start + tl.arange(0, BLOCK_P)
        n = offs_p // (P * Q)
        p = offs_p // Q % P
        q = offs_p % Q
        dy = tl.load(
            dy_ptr + offs_f[:, None] * stride_dk
            + (n * stride_dn + p * stride_dp + q * stride_dq)[None, :],
            mask=(offs_f[:, None] < K) & (offs_p[None, :] < end), other=0.0,
        )  # fmt: skip
        h = p * stride_h - padding_h + r * dilation_h
        w = q * stride_w - padding_w + s * dilation_w
        inside = (h >= 0) & (h < H)
        x = tl.load(
            x_ptr + (n * stride_xn + h * stride_xh + w * stride_xw)[:, None]
            + offs_c[None, :] * stride_xc,
            mask=(inside & (offs_p < end))[:, None] & (offs_c[None, :] < C), other=0.0,
        )  # fmt: skip
        acc = tl.dot(dy, x, acc)
    offs = ((offs_f[:, None] * C + offs_c[None, :]) * R + r) * S + s
    mask = (offs_f[:, None] < K) & (offs_c[None, :] < C)
    tl.store(partial_ptr + part * size + offs, acc, mask=mask)


@triton.jit
def add_parts_kernel(
    partial_ptr, dweight_ptr,
    parts, size,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(parts):
        acc += tl.load(partial_ptr + part * size + offs, mask=offs < size, other=0.0)
    tl.store(dweight_ptr + offs, acc.to(dweight_ptr.dtype.element_ty), mask=offs < size)


def conv2d_dweight(
    dy: torch.Tensor,
    x: torch.Tensor,
    kernel_size: Pair,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
) -> torch.Tensor:
    R, S = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
    stride = (stride, stride) if isinstance(stride, int) else stride
    padding = (padding, padding) if isinstance(padding, int) else padding
    dilation = (dilation, dilation) if isinstance(dilation, int) else dilation
    N, C, H, W = x.shape
    _, K, P, Q = dy.shape
    dweight = torch.empty((K, C, R, S), dtype=x.dtype, device=x.device)
    size = dweight.numel()
    BLOCK_F, BLOCK_C, BLOCK_P = 32, 32, 32
    NPQ = N * P * Q
    parts = max(1, min(8, NPQ // 1024))
    length = triton.cdiv(triton.cdiv(NPQ, parts), BLOCK_P) * BLOCK_P
    partial = torch.empty((parts, size), dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(K, BLOCK_F) * triton.cdiv(C, BLOCK_C), R * S, parts)
    conv2d_dweight_kernel[grid](
        dy, x, partial, NPQ, P, Q, C, H, W, K, length, size,
        *dy.stride(), *x.stride(), *stride, *padding, *dilation,
        R=R, S=S, BLOCK_F=BLOCK_F, BLOCK_C=BLOCK_C, BLOCK_P=BLOCK_P,
    )  # fmt: skip
    add_parts_kernel[(triton.cdiv(size, 256),)](partial, dweight, parts, size, BLOCK=256)
    return dweight
