"""What a user would take instead of the solutions of chapter 11."""

import torch

from judge.benchmark.peers import COMPILED, Benchmark
from judge.benchmark.workloads import HALF

ROWS = ((16384, 4096), (20_011, 6007), (32768, 8192), (4096, 32768))


def matrix(M, N, dtype):
    return (torch.randn(M, N, dtype=dtype),)


def strips(M, N, dtype):
    return torch.randn(M, N, dtype=dtype), (1, 128)


def squares(M, N, dtype):
    return torch.randn(M, N, dtype=dtype), (128, 128)


def quantized_blocks(make, scale_bytes):
    """The benchmark of a block's shape, with so many bytes of scales for each element of x."""
    return Benchmark(
        "quantize_blocks",
        make=make,
        sizes=ROWS,
        dtypes=HALF,
        peers=(COMPILED,),
        bytes_moved=lambda M, N, itemsize: round(M * N * (itemsize + 1 + scale_bytes)),
    )


BENCHMARKS = {
    "quantize_rows": Benchmark(
        "quantize_rows",
        make=matrix,
        sizes=ROWS,
        dtypes=HALF,
        peers=(COMPILED,),
        bytes_moved=lambda M, N, itemsize: M * N * (itemsize + 1) + 4 * M,
    ),
    "quantize_blocks": quantized_blocks(strips, 4 / 128),
    "quantize_blocks:squares": quantized_blocks(squares, 4 / 128**2),
}
