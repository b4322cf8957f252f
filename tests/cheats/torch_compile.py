# puzzle: 01_pointwise/swish
# mode: both
# rejected with: outside a kernel|launched no Triton kernel
import torch


@torch.compile(backend="eager")
def swish(x):
    return x * torch.sigmoid(x)
