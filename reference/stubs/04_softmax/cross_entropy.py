"""04.4  Cross entropy

The loss of a language model, from logits that are read once.

    loss[m] = max_m + log(sum_v exp(x[m, v] - max_m)) - x[m, targets[m]]
    where targets[m] is not -100, and 0 where it is; x are the logits, max_m the largest of row m
    PyTorch: torch.nn.functional.cross_entropy(logits, targets, reduction="none")

Given     logits (M, V): float16, bfloat16 or float32, contiguous, M and V >= 1;
          targets (M,): int64, contiguous, each -100 or in [0, V)
Return    loss (M,): a new tensor with the dtype of logits, computed in float32
New here  the online sum without its second pass; one element of each row by its index; an index
          that means "ignore this row"
Traffic   each logit loaded once, and that of the target once more, in whole sectors; each loss
          stored once; one launch
Speed     at least 5x the speed of the formula in PyTorch at 8192 x 32768 bfloat16 elements

Run       pytest puzzles/04_softmax/test_cross_entropy.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0
Sizes     any M and V; offsets beyond 2**31 elements
Dtypes    targets of int32
Values    a row with NaN or +inf, or of nothing but -inf, gives NaN, unless its target is -100;
          -inf elsewhere, whole blocks of it too, as in PyTorch; a single class gives exactly 0
Raise     ValueError that names logits if they are not 2-D or not floating point,
          and targets if they are not (M,) or neither int32 nor int64.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/04_softmax/production/test_cross_entropy.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(
    logits_ptr, targets_ptr, loss_ptr,
    V,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes the loss of one row, BLOCK_V logits at a time
    pass


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate the loss, choose BLOCK_V and a grid, launch
