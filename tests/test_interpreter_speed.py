"""How long the interpreter takes for a 256 x 256 x 256 float16 matmul in 32-blocks, in CPU seconds.

TRITON_INTERPRET=1 python tests/matmul_benchmark.py stock|repaired
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
import triton
import triton.language as tl


@triton.jit
def _matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # A constexpr bound: stock Triton 3.6 fails on a loop over an argument with NumPy 2.4.
    for k in range(8):
        mask_k = offs_k < K - k * BLOCK_K
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & mask_k[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=mask_k[:, None] & (offs_n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn
    tl.store(c_ptrs, acc.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


def run() -> float:
    a, b = torch.randn(256, 256).half(), torch.randn(256, 256).half()
    c = torch.empty_like(a)
    start = time.process_time()
    strides = (*a.stride(), *b.stride(), *c.stride())
    _matmul_kernel[(8, 8)](a, b, c, 256, 256, 256, *strides, 32, 32, 32)
    taken = time.process_time() - start
    torch.testing.assert_close(c, (a.float() @ b.float()).half(), rtol=2e-3, atol=2e-3)
    return taken


if __name__ == "__main__":
    if sys.argv[1] == "repaired":
        sys.path.insert(0, str(Path(__file__).parents[1]))
        from judge.interpreter import patches

        patches.install()
    print(min(run() for _ in range(2)))
