"""12.6  Linear layer and cross entropy

The loss of a language model's last layer and both of its gradients, without room for its logits.

    logits = x @ weight.T, some rows at a time;  n = number of targets that are not -100, at least 1
    g = softmax(logits) - onehot(targets), and 0 in the rows whose target is -100
    loss = sum of the other rows' cross entropy / n, dx = g @ weight / n, dweight = g.T @ x / n
    PyTorch: the gradients of torch.nn.functional.cross_entropy(x @ weight.T, targets)

Given     x (M, D) and weight (V, D): float16, bfloat16 or float32, both of one dtype, contiguous;
          targets (M,): int32 or int64, each -100 or in [0, V)
Return    (loss, dx, dweight): loss (), float32; dx and dweight like x and weight; the same bits on
          every run, so no atomic additions of floats. All sums in float32; logits and g may be
          rounded to the dtype of x, g after the one is subtracted (float32 factors may be tf32)
New here  rows in chunks: logits, their gradient in the same place (12.5), two products, next chunk
Traffic   at most 4.5 * M * V * D multiply-adds; no tensor larger than max(M, V) * max(D, 16). At M
          and V 128, D 16, float16, at most 28 KiB allocated besides the results
Speed     at least 0.5x the speed of PyTorch at M 8192, V 32768, D 2048, bfloat16

Run       pytest puzzles/12_transformer/test_fused_linear_cross_entropy.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0; offsets beyond 2**31 elements in x, weight and targets
Values    float16 gradients that 1 / n would round to 0 before the products; NaN as in PyTorch
Raise     ValueError that names x if it is not 2-D or has another dtype, weight if it does not fit
          x, and targets if its shape or dtype does not fit.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/12_transformer/production/test_fused_linear_cross_entropy.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # TODO: 07.2, for all three products; what must be added, and what divided, before the store?
    # Add pointers and tl.constexpr flags for what only one of the products needs.
    pass


@triton.jit
def cross_entropy_kernel(
    logits_ptr, targets_ptr, losses_ptr,
    V,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    # TODO: one program replaces a row of logits by g, and stores the row's loss
    # BLOCK_V columns at a time. How many targets count, and the mean of the losses, may take
    # kernels of your own.
    pass


def fused_linear_cross_entropy(
    x: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    raise NotImplementedError  # TODO: how many rows are a chunk? Then launch for each chunk
