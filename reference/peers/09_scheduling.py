"""What a user would take instead of the solutions of chapter 09.

The eager reference of a product is cuBLAS, which splits K by itself where it finds that faster.
"""

from dataclasses import replace

import torch

from judge.benchmark.libraries import CUBLASLT
from judge.benchmark.peers import Benchmark, Peer
from judge.benchmark.workloads import HALF, matmul

# Where K is long beside M and N, Inductor tries a bmm of pieces and a sum among its kernels.
MAX_AUTOTUNE = Peer(
    "torch.compile, max-autotune",
    prepare=lambda reference: torch.compile(
        reference, dynamic=False, mode="max-autotune-no-cudagraphs"
    ),
)

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
        sizes=((8192, 8192), (4096, 4096), (16384, 1024), (5003, 4001)),
        dtypes=HALF,
        peers=(CUBLASLT, MAX_AUTOTUNE),
        bytes_moved=lambda M, K, itemsize: (M * K + M * M) * itemsize,
        operations=lambda M, K: M * (M + 1) * K,
    ),
}
