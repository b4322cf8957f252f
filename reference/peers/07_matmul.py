"""What a user would take instead of the solutions of chapter 07.

The eager reference of a product is cuBLAS, and so is torch.compile's choice: what is compiled here
is only what has more to fuse.
"""

import torch
from torch.nn import functional

from judge.benchmark.libraries import CUBLASLT
from judge.benchmark.peers import COMPILED, Benchmark, Peer

SIZES = ((2048,) * 3, (4096,) * 3, (4003, 4001, 4007), (8192,) * 3)


def factors(M, N, K, dtype):
    return torch.randn(M, K, dtype=dtype), torch.randn(K, N, dtype=dtype)


def batches(B, M, N, K, dtype):
    return torch.randn(B, M, K, dtype=dtype), torch.randn(B, K, N, dtype=dtype)


def layer(M, N, K, dtype):
    x, weight = torch.randn(M, K, dtype=dtype), torch.randn(N, K, dtype=dtype)
    return x, weight, torch.randn(N, dtype=dtype), "relu"


def moved(M, N, K, itemsize):
    return (M * K + K * N + M * N) * itemsize


def multiplied(M, N, K):
    return 2 * M * N * K


def linear_and_relu(x, weight, bias, activation):
    return torch.relu(functional.linear(x, weight, bias))


def cublaslt_epilogue(x, weight, bias, activation):
    return torch._addmm_activation(bias, x, weight.T)


def product(function):
    return Benchmark(
        function,
        make=factors,
        sizes=SIZES,
        dtypes=("bfloat16", "float16"),
        peers=(CUBLASLT,),
        bytes_moved=moved,
        operations=multiplied,
    )


BENCHMARKS = {
    "matvec": Benchmark(
        "matvec",
        make=lambda M, K, dtype: (torch.randn(M, K, dtype=dtype), torch.randn(K, dtype=dtype)),
        sizes=((4096, 4096), (16384, 16384), (20_011, 18_013), (32768, 16384)),
        dtypes=("bfloat16", "float16"),
        peers=(Peer("torch.mm", lambda a, x: torch.mm(a, x[:, None])[:, 0]), COMPILED),
        bytes_moved=lambda M, K, itemsize: (M * K + M + K) * itemsize,
    ),
    "tiled": product("tiled_matmul"),
    "swizzled": product("swizzled_matmul"),
    "batched": Benchmark(
        "batched_matmul",
        make=batches,
        sizes=(
            (256, 512, 512, 512),
            (32, 2048, 2048, 2048),
            (17, 2001, 1999, 2003),
            (8, 4096, 4096, 4096),
        ),
        dtypes=("bfloat16", "float16"),
        peers=(CUBLASLT,),
        bytes_moved=lambda B, M, N, K, itemsize: B * moved(M, N, K, itemsize),
        operations=lambda B, M, N, K: B * multiplied(M, N, K),
    ),
    "linear": Benchmark(
        "linear",
        make=layer,
        sizes=SIZES,
        dtypes=("bfloat16", "float16"),
        peers=(
            Peer("linear, relu", linear_and_relu),
            Peer("_addmm_activation", cublaslt_epilogue),
            COMPILED,
        ),
        bytes_moved=moved,
        operations=multiplied,
    ),
    "autotuned": product("autotuned_matmul"),
}
