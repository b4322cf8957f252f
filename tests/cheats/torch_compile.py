# puzzle: 01_pointwise/swish
# mode: both
# rejected with: uses torch.compile outside a kernel
import torch


@torch.compile(backend="eager")
def swish(x):
    return x * torch.sigmoid(x)
