"""What a user would take instead of the solutions of chapter 07.

The eager reference of a product is cuBLAS, which is also what torch.compile chooses. So only
functions with more to fuse are compiled.
"""

import torch
from torch.nn import functional

from course.benchmark.libraries import CUBLASLT
from course.benchmark.peers import COMPILED, Benchmark, Peer
from course.benchmark.workloads import HALF, MATMUL_SIZES, matmul, matmul_bytes, matmul_operations


def batches(B, M, N, K, dtype):
    return torch.randn(B, M, K, dtype=dtype), torch.randn(B, K, N, dtype=dtype)


def layer(M, N, K, dtype):
    x, weight = torch.randn(M, K, dtype=dtype), torch.randn(N, K, dtype=dtype)
    return x, weight, torch.randn(N, dtype=dtype), "relu"


def linear_and_relu(x, weight, bias, activation):
    return torch.relu(functional.linear(x, weight, bias))


def cublaslt_epilogue(x, weight, bias, activation):
    return torch._addmm_activation(bias, x, weight.T)


BENCHMARKS = {
    "matvec": Benchmark(
        "matvec",
        make=lambda M, K, dtype: (torch.randn(M, K, dtype=dtype), torch.randn(K, dtype=dtype)),
        sizes=((4096, 4096), (16384, 16384), (20_011, 18_013), (32768, 16384)),
        dtypes=HALF,
        peers=(Peer("torch.mm", lambda a, x: torch.mm(a, x[:, None])[:, 0]), COMPILED),
        bytes_moved=lambda M, K, itemsize: (M * K + M + K) * itemsize,
    ),
    "tiled": matmul("tiled_matmul"),
    "swizzled": matmul("swizzled_matmul"),
    "batched": Benchmark(
        "batched_matmul",
        make=batches,
        sizes=(
            (256, 512, 512, 512),
            (32, 2048, 2048, 2048),
            (17, 2001, 1999, 2003),
            (8, 4096, 4096, 4096),
        ),
        dtypes=HALF,
        peers=(CUBLASLT,),
        bytes_moved=lambda B, M, N, K, itemsize: B * matmul_bytes(M, N, K, itemsize),
        operations=lambda B, M, N, K: B * matmul_operations(M, N, K),
    ),
    "linear": Benchmark(
        "linear",
        make=layer,
        sizes=MATMUL_SIZES,
        dtypes=HALF,
        peers=(
            Peer("linear, relu", linear_and_relu),
            Peer("_addmm_activation", cublaslt_epilogue),
            COMPILED,
        ),
        bytes_moved=matmul_bytes,
        operations=matmul_operations,
    ),
    "autotuned": matmul("autotuned_matmul"),
}
