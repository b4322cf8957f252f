"""Kernels that compile, of every kind that the puzzles use: a file as a learner writes it."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def square(x):
    return x * x


@triton.jit
def pointwise(x_ptr, y_ptr, n, scale, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, FUNCTION(x) * scale, mask=mask)


@triton.jit
def where(x_ptr, keep_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    keep = tl.load(keep_ptr + offsets, mask=mask)
    x = tl.load(x_ptr + offsets, mask=mask & keep, other=0.0)
    tl.store(y_ptr + offsets, tl.where(keep, x, -1.0), mask=mask)


@triton.autotune([triton.Config({"BM": 64, "BN": 64, "BK": 32})], key=["K"])
@triton.heuristics({"EVEN": lambda args: args["K"] % args["BK"] == 0})
@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr,
    K, stride_am, stride_bk, stride_cm,
    PRECISION: tl.constexpr, EVEN: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0) * BM + tl.arange(0, BM)
    offs_n = tl.program_id(1) * BN + tl.arange(0, BN)
    offs_k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        in_k = k + offs_k < K
        a = tl.load(a_ptr + offs_m[:, None] * stride_am + (k + offs_k)[None, :])
        b = tl.load(b_ptr + (k + offs_k)[:, None] * stride_bk + offs_n[None, :])
        if not EVEN:
            a = tl.where(in_k[None, :], a, 0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    tl.store(c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :], acc)


@triton.jit
def descriptors(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([m, k]), b_desc.load([k, n]), acc)
    c_desc.store([m, n], acc.to(c_desc.dtype))


@triton.jit
def made_descriptor(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK, BLOCK])
    y = tl.make_tensor_descriptor(y_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK, BLOCK])
    y.store([0, 0], x.load([0, 0]))


@triton.jit
def histogram(x_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    tl.atomic_add(counts_ptr + x, 1, mask=offsets < n)


@triton.jit
def asin(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, libdevice.asin(tl.load(x_ptr + offsets)))


@triton.jit
def odd_arguments(pointers, bias_ptr, flag, KIND: tl.constexpr, SIZES: tl.constexpr):
    offsets = tl.arange(0, SIZES[1])
    x = tl.load(pointers[0] + offsets).to(KIND)
    if bias_ptr is not None:
        x += tl.load(bias_ptr + offsets)
    if flag:
        x = -x
    tl.store(pointers[1] + offsets, x)


@triton.jit
def stride_to_float(x_ptr, stride):
    tl.store(x_ptr, stride.to(tl.float32))


@triton.jit
def scan_and_sum(x_ptr, y_ptr, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.arange(0, ROWS)
    carry = tl.zeros((ROWS,), tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        mask = columns[None, :] < n
        x = tl.load(x_ptr + rows[:, None] * n + columns[None, :], mask=mask, other=0.0)
        y = tl.cumsum(x, axis=1) + carry[:, None]
        tl.store(y_ptr + rows[:, None] * n + columns[None, :], y, mask=mask)
        carry += tl.sum(x, axis=1)
