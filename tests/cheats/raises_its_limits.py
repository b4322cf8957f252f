# puzzle: 01_pointwise/swish
# mode: both
# rejected with: its limits was replaced
# sealed: harmless
# sealed on a GPU: the same
from honest import swish as honest
from torch.utils._python_dispatch import _get_current_dispatch_mode


def swish(x):
    _get_current_dispatch_mode().readable = 10**9
    return honest(x)
