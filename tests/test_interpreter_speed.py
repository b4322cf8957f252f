"""The patched interpreter is faster than Triton's own at a small matmul.

    TRITON_INTERPRET=1 python tests/test_interpreter_speed.py stock|patched

prints the seconds of CPU of 256 x 256 x 256 in float16, in blocks of 32, the better of two runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
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


def seconds() -> float:
    """Run the matmul once, check it, and return its seconds of CPU."""
    a, b = torch.randn(256, 256).half(), torch.randn(256, 256).half()
    c = torch.empty_like(a)
    start = time.process_time()
    strides = (*a.stride(), *b.stride(), *c.stride())
    _matmul_kernel[(8, 8)](a, b, c, 256, 256, 256, *strides, 32, 32, 32)
    taken = time.process_time() - start
    torch.testing.assert_close(c, (a.float() @ b.float()).half(), rtol=2e-3, atol=2e-3)
    return taken


@pytest.mark.proof
@pytest.mark.skipif(not triton.knobs.runtime.interpret, reason="needs TRITON_INTERPRET=1")
def test_matmul_is_faster_than_stock():
    def measure(interpreter: str) -> float:
        command = [sys.executable, __file__, interpreter]
        environment = {**os.environ, "TRITON_INTERPRET": "1"}
        return float(
            subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout
        )

    assert measure("patched") < 0.75 * measure("stock")


if __name__ == "__main__":
    if sys.argv[1] == "patched":
        sys.path.insert(0, str(Path(__file__).parents[1]))
        from kernelgauge.interpreter import patches

        patches.install()
    print(min(seconds() for _ in range(2)))
