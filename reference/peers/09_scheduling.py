"""What a user would take instead of the solutions of chapter 09.

The eager reference of a product is cuBLAS, which splits K by itself where it finds that faster.
"""

from dataclasses import replace

import torch

from course.benchmark.libraries import CUBLASLT
from course.benchmark.peers import COMPILED, Benchmark, Peer
from course.benchmark.workloads import HALF, matmul

# Where K is long beside M and N, Inductor tries a bmm of pieces and a sum among its kernels.
MAX_AUTOTUNE = Peer(
    "torch.compile, max-autotune",
    prepare=lambda reference: torch.compile(
        reference, dynamic=False, mode="max-autotune-no-cudagraphs"
    ),
)


def groups(T, N, K, G, dtype):
    # Sizes between nothing and twice the mean.
    ends = torch.rand(G).cumsum(0)
    ends = (ends / ends[-1] * T).round().to(torch.int32)
    return torch.randn(T, K, dtype=dtype), torch.randn(G, K, N, dtype=dtype), ends


def grouped_mm(reference):
    # torch 2.13 gave it a public name. It takes rows whose length in bytes is a multiple of 16.
    multiply = getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm
    return lambda a, b, ends: multiply(a, b, offs=ends)


BENCHMARKS = {
    "split_k": replace(
        matmul("split_k_matmul"),
        sizes=((512, 512, 131072), (128, 128, 262144), (300, 500, 100_003), (4096, 4096, 4096)),
        peers=(CUBLASLT, MAX_AUTOTUNE),
    ),
    "stream_k": replace(
        matmul("stream_k_matmul"),
        sizes=((1536, 3072, 16384), (4096, 4096, 4096), (1400, 3001, 8007)),
        peers=(CUBLASLT, MAX_AUTOTUNE),
    ),
    "triangular": Benchmark(
        "gram_matrix",
        make=lambda M, K, dtype: (torch.randn(M, K, dtype=dtype),),
        sizes=((8192, 8192), (4096, 4096), (16384, 2048), (5003, 4001)),
        dtypes=HALF,
        peers=(CUBLASLT, MAX_AUTOTUNE),
        bytes_moved=lambda M, K, itemsize: (M * K + M * M) * itemsize,
        operations=lambda M, K: M * (M + 1) * K,
    ),
    "grouped_gemm": Benchmark(
        "grouped_matmul",
        make=groups,
        sizes=((16384, 2048, 2048, 64), (65536, 4096, 2048, 16), (4099, 1536, 2048, 128)),
        dtypes=("bfloat16",),
        peers=(Peer("grouped_mm", prepare=grouped_mm), COMPILED),
        bytes_moved=lambda T, N, K, G, itemsize: (T * K + G * K * N + T * N) * itemsize,
        operations=lambda T, N, K, G: 2 * T * N * K,
        varied=True,
    ),
    "pruned": replace(
        matmul("pruned_matmul"),
        sizes=((4096, 4096, 4096), (16, 16384, 16384), (4003, 4001, 4007), (8192, 8192, 8192)),
        peers=(CUBLASLT, MAX_AUTOTUNE),
    ),
}
