# puzzle: 01_pointwise/swish
# mode: both
# rejected with: uses torch.compile outside a kernel
# sealed: uses torch's sigmoid outside a kernel|did not return within
import torch


@torch.compile(backend="eager")
def swish(x):
    return x * torch.sigmoid(x)
