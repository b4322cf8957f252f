# puzzle: 01_pointwise/swish
# mode: both
# rejected with: uses torch.compile outside a kernel
# sealed: uses torch's sigmoid outside a kernel|did not return within
# sealed on a GPU: no CUDA-capable device
import torch


@torch.compile(backend="eager")
def swish(x):
    return x * torch.sigmoid(x)
