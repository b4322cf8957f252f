"""06.3  Dropout

Drop each element with probability p, by random numbers that are made where they are used.

    y[i] = x[i] / (1 - p) if tl.rand(seed, i) > p else 0     PyTorch: torch.nn.functional.dropout
    where i is the element's number in row-major order, whatever the strides are
    source: Srivastava et al., "Dropout" (2014); Salmon et al., "Parallel random numbers" (2011)

Given     x, up to 4-D: float16, bfloat16 or float32, any strides
          p: the probability of dropping, 0 to 1; p = 1 gives zeros
          seed: an integer of at most 64 bits
Return    y: shape and dtype of x, contiguous; x / (1 - p) in float32, rounded once. A NaN or inf
          that is dropped is 0
Raise     ValueError that names x if it has more than 4 dimensions or another dtype,
          and p if it is outside [0, 1]
New here  tl.rand(seed, offset), a function and no stream: the same seed and offset give the same
          number in every program, on every GPU, in any order
Traffic   1 load and 1 store an element, one launch; no mask is stored
Speed     at least 1.5x of PyTorch's rand, comparison, division and where at 64 Mi float32 elements

Run       pytest puzzles/06_fusion/test_dropout.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def dropout_kernel(
    x_ptr, y_ptr,
    N, size_1, size_2, size_3,
    stride_x0, stride_x1, stride_x2, stride_x3,
    p, keep_share, seed,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes BLOCK elements, counted in row-major order
    pass


def dropout(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    raise NotImplementedError  # TODO: check the inputs, allocate y, choose a grid, launch
