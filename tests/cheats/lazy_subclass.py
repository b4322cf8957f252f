# puzzle: 01_pointwise/swish
# mode: both
# rejected with: a plain tensor
# sealed: harmless
# sealed on a GPU: the same
import torch
from honest import swish as honest


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})


def swish(x):
    return honest(x).as_subclass(Lazy)
