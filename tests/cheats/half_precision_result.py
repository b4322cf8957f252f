# puzzle: 01_pointwise/swish
# mode: both
# rejected with: has dtype
# sealed on a GPU: the same
import torch
import triton
from honest import swish_kernel


def swish(x):
    y = torch.empty_like(x, dtype=torch.bfloat16)
    N = x.numel()
    swish_kernel[(triton.cdiv(N, 1024),)](x, y, N, 1, 1, 1, 1, 0, 0, 0, BLOCK=1024)
    return y
