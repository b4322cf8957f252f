"""19.3  Barrier ring

Copy rows, doubled: one partition fetches tiles into a ring of two slots, another takes them out.

    y[m, n] = 2 * x[m, n]          PyTorch: x * 2

Given     x (M, N): float16, bfloat16 or float32, contiguous, N a multiple of 8, M, N >= 1
Return    y (M, N): a new tensor with the dtype of x
New here  warp_specialize: two functions of one kernel that run side by side; mbarrier: init,
          expect, wait for a phase, arrive; tma.async_copy_global_to_shared into shared memory
Traffic   each element of x loaded once, each of y stored once, one launch
Speed     at least 0.3x the speed of x * 2 at 8192 x 8192 float32

Run       pytest puzzles/19_gluon/test_barrier_ring.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    rows of a larger matrix
Raise     ValueError that names x if it is not 2-D, has another dtype, or TMA cannot address it.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/19_gluon/production/test_barrier_ring.py
"""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def barrier_ring_kernel(
    x_desc, y_ptr,
    M, N, stride_ym,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, SLOTS: gl.constexpr, TILE_BYTES: gl.constexpr,
):  # fmt: skip
    # TODO: allocate the slots and two barriers for each, and start two partitions: one that
    # fetches tiles, one that doubles and stores them
    pass


def barrier_ring(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, make the descriptor, choose a grid, launch
