"""What a user would take instead of the solutions of chapter 02."""

from dataclasses import replace

import torch
from torch.nn import functional

from course.benchmark.peers import COMPILED, Benchmark, Peer
from course.benchmark.workloads import moved, randn

# An index outside the table ends the process's use of the GPU. The spec asks for an IndexError, and
# so for a flag that is read back.
ASSERTS = "asserts on the device, and reads no flag back"
SIZES = ((2048, 2048), (16384, 16384), (20_011, 19_997), (16384, 32768))


def every_second_row(M, N, dtype):
    return (torch.randn(2 * M, N, dtype=dtype)[::2],)


def table_and_indices(V, D, count, dtype):
    """A table, and indices that hit every row with the same probability."""
    return torch.randn(V, D, dtype=dtype), torch.randint(0, V, (count,))


def gathered(V, D, count, itemsize):
    """A row counts every time it is used: a large table does not stay in the L2 between uses."""
    return 2 * count * D * itemsize


def upper_triangle(M, N, itemsize):
    """Bytes of a matrix, which is written, and of its part on and above the diagonal, read."""
    lower = min(M, N)
    below = lower * (lower - 1) // 2 + (M - lower) * N
    return (2 * M * N - below) * itemsize


def by_matrix(function, *peers, make=None, bytes_moved=None):
    return Benchmark(
        function,
        make=make or randn(1),
        sizes=SIZES,
        peers=(*peers, COMPILED),
        bytes_moved=bytes_moved or moved(2),
    )


BENCHMARKS = {
    "outer_add": by_matrix(
        "outer_add",
        make=lambda M, N, dtype: (torch.randn(M, dtype=dtype), torch.randn(N, dtype=dtype)),
        bytes_moved=lambda M, N, itemsize: (M * N + M + N) * itemsize,
    ),
    "strided_copy": by_matrix(
        "strided_copy",
        Peer("Tensor.contiguous", lambda x: x.contiguous()),
        make=every_second_row,
    ),
    "transpose": by_matrix("transpose", Peer("Tensor.contiguous", lambda x: x.T.contiguous())),
    "embedding": Benchmark(
        "embedding",
        make=table_and_indices,
        sizes=(
            (32768, 1024, 8192),
            (65536, 2048, 131_072),
            (50_257, 1601, 200_003),
            (131_072, 4096, 65536),
        ),
        peers=(
            Peer(
                "functional.embedding",
                lambda table, i: functional.embedding(i, table),
                other_work=ASSERTS,
            ),
            Peer(
                "index_select",
                lambda table, i: torch.index_select(table, 0, i),
                other_work=ASSERTS,
            ),
            replace(COMPILED, other_work=ASSERTS),
        ),
        eager_other_work=ASSERTS,
        bytes_moved=gathered,
    ),
    "scale": by_matrix(
        "scale",
        Peer("torch.mul", torch.mul),
        make=lambda M, N, dtype: (torch.randn(M, N, dtype=dtype), 0.5),
    ),
    "triu": by_matrix("triu", bytes_moved=upper_triangle),
}
