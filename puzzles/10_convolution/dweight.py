"""10.4  Weight gradient of a convolution

The product of 10.3 turned around: few results, and a sum over every pixel of every image.

    dweight[k, c, r, s] = sum over n, p and q of dy[n, k, p, q] * x[n, c, h, w]
    h = p * stride - padding + r * dilation, w = q * stride - padding + s * dilation
    x outside its image counts as 0
    PyTorch: grad.conv2d_weight(x, (K, C, R, S), dy, stride, padding, dilation)

Given     dy (N, K, P, Q), the gradient of conv2d's result, and x (N, C, H, W): float16, bfloat16
          or float32, both of one dtype, each contiguous or channels last; kernel_size (R and S),
          stride, padding and dilation: ints for both sides
Return    dweight (K, C, R, S): dtype of x, contiguous; summed in float32, also between programs,
          and rounded once (float32 factors may round to tf32); the same bits on every run
New here  a long reduction shared out among programs, as in 09, where its index is a pixel
Traffic   dy loaded at most R * S * ceil(C / 32) times, x at most R * S * ceil(K / 32) times, each
          of dweight stored once, 2 launches; partial sums at most a quarter of the other traffic
Speed     at least 0.15x PyTorch's speed at (32, 256, 56, 56) for both, 3 x 3, padding 1, float16,
          both channels last

Run       pytest puzzles/10_convolution/test_dweight.py

Production (puzzles/PRODUCTION.md says how) adds

Options   kernel_size, stride, padding and dilation as tuples (height, width)
Layout    any strides of dy and x, including 0; offsets and results beyond 2**31 elements
Values    NaN and inf as in PyTorch; the whole range of float32 and bfloat16
Traffic   at least 32 programs for 4096 pixels of 16 channels each; from 2**26 products on, dy and x
          may first be copied to channels last, a launch each
Raise     ValueError that names x if it is not 4-D or has another dtype, dy if it is not
          (N, K, P, Q) with the dtype of x and the P and Q of 10.3, kernel_size if it is below 1 or
          larger than x with its padding, stride or dilation if it is below 1, padding if it is
          negative.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/10_convolution/production/test_dweight.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

Pair = int | tuple[int, int]


@triton.jit
def conv2d_dweight_kernel(
    dy_ptr, x_ptr, partial_ptr,
    P, Q, C, H, W, K,
    stride_dn, stride_dk, stride_dp, stride_dq,
    stride_xn, stride_xc, stride_xh, stride_xw,
    stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w,
    S: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    # TODO: one program sums the products of BLOCK_F filters and BLOCK_C channels over some pixels
    pass


@triton.jit
def add_parts_kernel(
    partial_ptr, dweight_ptr,
    parts,
):  # fmt: skip
    # TODO: one program adds the partial sums of some elements of dweight
    pass


def conv2d_dweight(
    dy: torch.Tensor,
    x: torch.Tensor,
    kernel_size: Pair,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate dweight and the partial sums, launch two kernels
