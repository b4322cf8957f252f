# puzzle: 01_pointwise/swish
# mode: both
# rejected with: kernelgauge.subject.guard.FILLED was replaced
# sealed: ModuleNotFoundError: No module named
# sealed on a GPU: the same
import torch

from kernelgauge.subject.guard import FILLED

FILLED.add(torch.ops.aten.silu.default)


def swish(x):
    return torch.nn.functional.silu(x)
