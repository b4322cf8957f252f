# puzzle: 01_pointwise/swish
# mode: both
# rejected with: torch.Tensor.is_contiguous was replaced
# sealed: harmless
# sealed on a GPU: the same
import torch
from honest import swish as honest

torch.Tensor.is_contiguous = lambda tensor, **options: True
swish = honest
