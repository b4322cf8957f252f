"""10.2  Max pooling

Take the largest element of each window of an image, and remember where it was.

    out[n, c, p, q]     = max of x[n, c, h, w] over the window's elements that lie in x
    indices[n, c, p, q] = h * W + w of the first of them that is largest, in row-major order
    the window: h from p * stride - padding, w from q * stride - padding, kernel_size of each
    PyTorch: max_pool2d(x, kernel_size, stride, padding, return_indices=True)

Given     x (N, C, H, W): float16, bfloat16 or float32, contiguous or channels last; kernel_size,
          stride (None: kernel_size) and padding, at most half of kernel_size: ints for both sides
Return    (out, indices), both (N, C, P, Q) and contiguous: dtype of x, and int64;
          P = (H + 2 * padding - kernel_size) // stride + 1, Q likewise from W
New here  windows in two dimensions; padding that never wins; a maximum with its index
Traffic   each element of x loaded by at most ceil(kernel_size / stride) ** 2 windows, each result
          stored once, neighbouring lanes on neighbouring elements, one launch
Speed     at least 0.6x the speed of PyTorch at (64, 64, 224, 224), 3, 2, 1, bfloat16

Run       pytest puzzles/10_convolution/test_pooling.py

Production (puzzles/PRODUCTION.md says how) adds

Options   kernel_size, stride and padding as tuples (height, width)
Layout    any strides of x, including 0; offsets and results beyond 2**31 elements
Sizes     as many programs as the first axis of a grid takes
Values    as in PyTorch: NaN is larger than everything, and the last NaN of a window counts; a
          window of nothing but -inf has the index of its first element that lies in x
Raise     ValueError that names x if it is not 4-D or has another dtype, kernel_size if it is below
          1 or larger than x with its padding, stride if it is below 1, padding if it is negative
          or more than half of kernel_size, and each of them if it is neither an int nor two.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/10_convolution/production/test_pooling.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

Pair = int | tuple[int, int]


@triton.jit
def max_pool2d_kernel(
    x_ptr, out_ptr, indices_ptr,
    C, H, W, P, Q,
    stride_xn, stride_xc, stride_xh, stride_xw,
    STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr,
    PADDING_H: tl.constexpr, PADDING_W: tl.constexpr,
    KERNEL_H: tl.constexpr, KERNEL_W: tl.constexpr,
    BLOCK_Q: tl.constexpr,
):  # fmt: skip
    # TODO: one program pools BLOCK_Q windows, one beside the other
    pass


def max_pool2d(
    x: torch.Tensor, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    raise NotImplementedError  # TODO: allocate out and indices, choose a grid, launch
