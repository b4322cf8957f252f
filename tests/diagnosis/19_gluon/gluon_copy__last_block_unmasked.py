# fault: the last block is copied without a mask
# cause: mask with offs < N
# never: given to the descriptor

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def gluon_copy_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK: gl.constexpr, VECTOR: gl.constexpr,
):  # fmt: skip
    layout: gl.constexpr = gl.BlockedLayout([VECTOR], [32], [gl.num_warps()], [0])
    pid = gl.program_id(0).to(gl.int64)
    offs = pid * BLOCK + gl.arange(0, BLOCK, layout)
    if pid <= N // BLOCK:
        # Whole blocks need no mask, so that each thread moves 16 bytes at a time.
        gl.store(y_ptr + offs, gl.load(x_ptr + offs))
    else:
        mask = offs < N
        gl.store(y_ptr + offs, gl.load(x_ptr + offs, mask=mask), mask=mask)


def gluon_copy(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    N = x.numel()
    BLOCK = 2048
    VECTOR = 16 // x.element_size()
    gluon_copy_kernel[(triton.cdiv(N, BLOCK),)](x, y, N, BLOCK=BLOCK, VECTOR=VECTOR, num_warps=4)
    return y
