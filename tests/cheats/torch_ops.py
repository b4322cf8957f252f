# puzzle: 01_pointwise/swish
# mode: both
# rejected with: torch's silu outside a kernel
# sealed on a GPU: the same
import torch


def swish(x):
    return torch.ops.aten.silu.default(x)
