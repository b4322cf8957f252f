"""What a user would take instead of the solutions of chapter 02."""

import torch
from torch.nn import functional

from judge.benchmark.peers import COMPILED, Benchmark, Peer

SIZES = ((2048, 2048), (16384, 16384), (20_011, 19_997), (16384, 32768))


def matrix(M, N, dtype):
    return (torch.randn(M, N, dtype=dtype),)


def every_second_row(M, N, dtype):
    return (torch.randn(2 * M, N, dtype=dtype)[::2],)


def copied(M, N, itemsize):
    return 2 * M * N * itemsize


def picks(V, D, count, dtype):
    """A table and indices that hit any row with one probability."""
    return torch.randn(V, D, dtype=dtype), torch.randint(0, V, (count,))


def gathered(V, D, count, itemsize):
    """Each row is read for each use: those of a large table do not wait in the L2 for the next."""
    return 2 * count * D * itemsize


def kept(M, N, itemsize):
    """Bytes of a matrix, written, and of the part that is not below its diagonal, read."""
    lower = min(M, N)
    below = lower * (lower - 1) // 2 + (M - lower) * N
    return (2 * M * N - below) * itemsize


BENCHMARKS = {
    "outer_add": Benchmark(
        "outer_add",
        make=lambda M, N, dtype: (torch.randn(M, dtype=dtype), torch.randn(N, dtype=dtype)),
        sizes=SIZES,
        dtypes=("float32", "bfloat16"),
        peers=(COMPILED,),
        bytes_moved=lambda M, N, itemsize: (M * N + M + N) * itemsize,
    ),
    "strided_copy": Benchmark(
        "strided_copy",
        make=every_second_row,
        sizes=SIZES,
        dtypes=("float32", "bfloat16"),
        peers=(Peer("Tensor.contiguous", lambda x: x.contiguous()), COMPILED),
        bytes_moved=copied,
    ),
    "transpose": Benchmark(
        "transpose",
        make=matrix,
        sizes=SIZES,
        dtypes=("float32", "bfloat16"),
        peers=(Peer("Tensor.contiguous", lambda x: x.T.contiguous()), COMPILED),
        bytes_moved=copied,
    ),
    "embedding": Benchmark(
        "embedding",
        make=picks,
        sizes=(
            (32768, 1024, 8192),
            (65536, 2048, 131_072),
            (50_257, 1601, 200_003),
            (131_072, 4096, 65536),
        ),
        dtypes=("float32", "bfloat16"),
        peers=(
            Peer("functional.embedding", lambda table, i: functional.embedding(i, table)),
            Peer("index_select", lambda table, i: torch.index_select(table, 0, i)),
            COMPILED,
        ),
        bytes_moved=gathered,
    ),
    "scale": Benchmark(
        "scale",
        make=lambda M, N, dtype: (*matrix(M, N, dtype), 0.5),
        sizes=SIZES,
        dtypes=("float32", "bfloat16"),
        peers=(Peer("torch.mul", torch.mul), COMPILED),
        bytes_moved=copied,
    ),
    "triu": Benchmark(
        "triu",
        make=matrix,
        sizes=SIZES,
        dtypes=("float32", "bfloat16"),
        peers=(COMPILED,),
        bytes_moved=kept,
    ),
}
