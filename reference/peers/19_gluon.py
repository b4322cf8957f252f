"""What a user would take instead of the solutions of chapter 19."""

import torch

from course.benchmark.libraries import attention_peers
from course.benchmark.peers import COMPILED, Benchmark, Peer
from course.benchmark.workloads import (
    ATTENTION_SIZES,
    HALF,
    attention_operations,
    matmul,
    moved,
    randn,
    softmax,
)

# TMA asks for rows of whole 16 bytes.
PRODUCTS = ((4096,) * 3, (4003, 4008, 4016), (8192,) * 3)


def attention(causal):
    return Benchmark(
        "gluon_attention",
        make=lambda *size, dtype: (*randn(3)(*size, dtype=dtype), None, causal),
        sizes=(*ATTENTION_SIZES, (1, 16, 8192, 64), (1, 16, 8192, 128)),
        dtypes=HALF,
        peers=attention_peers(causal=causal),
        operations=attention_operations(causal=causal),
    )


SIGMOID = Benchmark(
    "sigmoid_attention",
    make=randn(3),
    sizes=((16, 1024, 64), (31, 3001, 64), (128, 4096, 64), (128, 4096, 128), (16, 8192, 128)),
    dtypes=HALF,
    peers=(COMPILED,),
    operations=lambda H, S, D: 4 * H * S * S * D,
)

BENCHMARKS = {
    "gluon_copy": Benchmark(
        "gluon_copy",
        make=randn(1),
        sizes=((2**20,), (2**24,), (2**27,), (200_000_003,), (2**28,)),
        peers=(Peer("Tensor.copy_", lambda x: torch.empty_like(x).copy_(x)), COMPILED),
        bytes_moved=moved(2),
    ),
    "gluon_softmax": softmax(
        "gluon_softmax", ((4096, 4096), (16384, 4096), (20_011, 6000), (32768, 8192))
    ),
    "barrier_ring": Benchmark(
        "barrier_ring",
        make=randn(1),
        sizes=((4096, 4096), (8192, 8192), (16384, 16384), (10_007, 3000)),
        peers=(Peer("torch.mul", lambda x: torch.mul(x, 2)), COMPILED),
        bytes_moved=moved(2),
    ),
    "gluon_matmul": matmul("gluon_matmul", PRODUCTS),
    "gluon_ws_matmul": matmul("gluon_ws_matmul", PRODUCTS),
    "sigmoid_attention": SIGMOID,
    "gluon_attention": attention(causal=False),
    "gluon_attention:causal": attention(causal=True),
}
