# puzzle: 01_pointwise/swish
# mode: both
# rejected with: searches the memory of the judge
# sealed: harmless
# sealed on a GPU: the same
import gc

import torch
from honest import swish as honest


def swish(x):
    for thing in gc.get_objects():
        if type(thing) is torch.Tensor and thing.shape == x.shape and thing.is_floating_point():
            honest(thing)
    return honest(x)
