"""Inputs, counts of the least work, and whole benchmarks that several chapters share."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from course.benchmark.libraries import CUBLASLT, liger
from course.benchmark.peers import COMPILED, Benchmark, Peer, Size

HALF = ("bfloat16", "float16")
SOFTMAX_SIZES = ((4096, 4096), (16384, 4096), (20_011, 6007), (4096, 32768), (32768, 8192))
MATMUL_SIZES = ((2048,) * 3, (4096,) * 3, (4003, 4001, 4007), (8192,) * 3)
ATTENTION_SIZES = ((1, 16, 1024, 64), (3, 31, 3001, 64), (4, 32, 4096, 64), (4, 32, 4096, 128))


def randn(count: int) -> Callable[..., tuple]:
    """Return a function that makes `count` tensors of the benchmark's size."""
    return lambda *size, dtype: tuple(torch.randn(size, dtype=dtype) for _ in range(count))


def moved(count: int) -> Callable[..., int]:
    """Return a function that counts the bytes of `count` tensors of the benchmark's size."""
    return lambda *size, itemsize: count * math.prod(size) * itemsize


def softmax(function: str, sizes: tuple[Size, ...] = SOFTMAX_SIZES) -> Benchmark:
    """Return the benchmark of a softmax over rows (M, N)."""
    return Benchmark(
        function,
        make=randn(1),
        sizes=sizes,
        peers=(
            Peer("torch.softmax", lambda x: torch.softmax(x, 1)),
            COMPILED,
            liger("LigerSoftmaxFunction", lambda kernel, x: kernel.apply(x)),
        ),
        bytes_moved=moved(2),
    )


def matmul_bytes(M: int, N: int, K: int, itemsize: int) -> int:
    """Count the bytes of both factors and the product, each read or written once."""
    return (M * K + K * N + M * N) * itemsize


def matmul_operations(M: int, N: int, K: int) -> int:
    """Count the multiplications and additions of a product."""
    return 2 * M * N * K


def matmul(function: str, sizes: tuple[Size, ...] = MATMUL_SIZES) -> Benchmark:
    """Return the benchmark of a product of (M, K) with (K, N)."""
    return Benchmark(
        function,
        make=lambda M, N, K, dtype: (
            torch.randn(M, K, dtype=dtype),
            torch.randn(K, N, dtype=dtype),
        ),
        sizes=sizes,
        dtypes=HALF,
        peers=(CUBLASLT,),
        bytes_moved=matmul_bytes,
        operations=matmul_operations,
    )


def attention_operations(products: int = 2, causal: bool = False) -> Callable[..., int]:
    """Return a function that counts the operations of so many products within heads (B, H, S, D).

    Each multiplies S x D by D x S, or S x S by S x D.
    """
    return lambda B, H, S, D: products * 2 * B * H * S * S * D // (2 if causal else 1)
