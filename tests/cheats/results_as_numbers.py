# puzzle: 01_pointwise/swish
# mode: interpreter
# rejected with: only where the launcher itself can read
# sealed: uses Tensor.tolist outside a kernel
# sealed on a GPU: the same
import torch
import triton
import triton.language as tl
from honest import swish as honest
from torch.utils._python_dispatch import _disable_current_modes


@triton.jit
def store_kernel(values, y_ptr):
    for i in tl.static_range(len(values)):
        tl.store(y_ptr + i, values[i])


def swish(x):
    y = honest(x)
    with _disable_current_modes():
        values = tuple(torch.nn.functional.silu(x.double()).flatten()[:16].tolist())
    store_kernel[(1,)](values, y)
    return y
