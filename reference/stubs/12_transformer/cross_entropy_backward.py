"""12.5  Cross entropy, backward

The gradient of cross entropy takes the place of the logits, since there is no room for another.

    logits[m, v] = (exp(logits[m, v] - lse[m]) - (1 if v == targets[m] else 0)) * dloss[m]
    and 0 in the rows whose target is -100, which count for nothing
    PyTorch: the gradient of torch.nn.functional.cross_entropy(logits, targets, reduction="none")

Given     dloss (M,): float32 or the dtype of logits, contiguous, or one number for all rows by a
          stride of 0, as for a mean; logits (M, V): float16, bfloat16 or float32, contiguous;
          targets (M,): int32 or int64, each -100 or in [0, V); lse (M,): float32, the logarithm of
          the sum of exp(logits) of each row, which the forward pass knows
Return    None: logits is overwritten by its gradient, computed in float32 and rounded once
New here  working in place, where each element is loaded before anything is stored over it; and
          rounding last: near the target p is near 1, and p - 1 is what is left of it
Traffic   each element of logits loaded once and stored once, neighbouring lanes on neighbouring
          elements, one launch, nothing else stored
Speed     at least 10x the speed of the formula in PyTorch at 8192 x 32768 bfloat16 elements

Run       pytest puzzles/12_transformer/test_cross_entropy_backward.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0 for dloss, targets and lse; offsets beyond 2**31 elements
Sizes     rows of more than 2**17 logits
Values    rows of target -100 become 0 whatever they, their lse and their dloss hold; logits of -inf
          become 0; a row of nothing else becomes NaN
Raise     ValueError that names logits if it is not 2-D or has another dtype, and dloss, targets or
          lse if its shape or dtype does not fit.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/12_transformer/production/test_cross_entropy_backward.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def cross_entropy_backward_kernel(
    dloss_ptr, logits_ptr, targets_ptr, lse_ptr,
    V,
    stride_dloss,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program replaces a row of logits, or a part of one
    # BLOCK is how many columns it takes at a time. Add parameters as you need them.
    pass


def cross_entropy_backward(
    dloss: torch.Tensor, logits: torch.Tensor, targets: torch.Tensor, lse: torch.Tensor
) -> None:
    raise NotImplementedError  # TODO: choose a grid, launch
