"""10.3  2-D convolution

A convolution as a matrix product whose left factor, all windows of x, is never stored.

    out[n, k, p, q] = sum over c, r and s of weight[k, c, r, s] * x[n, c, h, w]
    h = p * stride - padding + r * dilation, w = q * stride - padding + s * dilation
    x outside its image counts as 0
    PyTorch: conv2d(x, weight, None, stride, padding, dilation)

Given     x (N, C, H, W) and weight (K, C, R, S): float16, bfloat16 or float32, both of one dtype,
          each contiguous or channels last; stride, padding, dilation: ints for both sides; groups 1
Return    out (N, K, P, Q): dtype of x, contiguous, summed in float32 (float32 factors may round to
          tf32); P = (H + 2 * padding - dilation * (R - 1) - 1) // stride + 1, Q likewise
New here  implicit GEMM: rows and columns of a tile become pixels, channels and places in the window
Traffic   each element of x loaded at most R * S * ceil(K / 32) times, each of weight at most
          ceil(N * P * Q / 32) times, each of out stored once by neighbouring lanes, one launch
Speed     at least 0.3x PyTorch's speed at (32, 256, 56, 56) by (256, 256, 3, 3), padding 1,
          float16, both channels last

Run       pytest puzzles/10_convolution/test_conv2d.py

Production (puzzles/PRODUCTION.md says how) adds

Options   stride, padding and dilation as tuples (height, width); groups up to C: weight is then
          (K, C / groups, R, S), and filter k sees the channels of group k // (K / groups)
Layout    any strides of x and weight, including 0; offsets and results beyond 2**31 elements
Values    NaN and inf as in PyTorch; the whole range of float32 and bfloat16
Traffic   (2, 3, 32, 32) by (64, 3, 7, 7), stride 2: tl.dot does at most 1.5 times the work needed
          from 2**26 products on, x and weight may first be copied to channels last, a launch each
Raise     ValueError that names x if it is not 4-D or has another dtype, weight if it is not
          (K, C / groups, R, S) with the dtype of x, if groups does not divide K, or if its window
          is larger than x with its padding, stride or dilation if it is below 1, padding if it is
          negative, groups if it is below 1 or does not divide C.
Speed     at least 0.65x the speed of PyTorch, at least 0.9x the speed of our solution
Run       pytest puzzles/10_convolution/production/test_conv2d.py
"""

from __future__ import annotations

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
    # TODO: one program computes BLOCK_F filters at BLOCK_P pixels, BLOCK_K products at a time
    pass


def conv2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate out, choose a grid, launch
