"""What a user would take instead of the solutions of chapter 03."""

import torch

from judge.benchmark.peers import COMPILED, Benchmark, Peer

SIZES = ((16384, 4096), (20_011, 12_007), (32768, 8192), (1024, 524_288))


# Rows that fit on a chip.
SHORT_SIZES = (*SIZES[:3], (16384, 32768))


def matrix(M, N, dtype):
    return (torch.randn(M, N, dtype=dtype),)


def read(M, N, itemsize):
    return M * N * itemsize


def mean_and_variance(x):
    variance, mean = torch.var_mean(x, 1)
    return mean, variance


def histc(reference):
    """torch.histc takes integers on a GPU only."""
    return lambda x, bins: torch.histc(x, bins, 0, bins)


BENCHMARKS = {
    "row_sum": Benchmark(
        "row_sum",
        make=matrix,
        sizes=SIZES,
        dtypes=("float32", "bfloat16"),
        peers=(Peer("torch.sum", lambda x: torch.sum(x, 1)), COMPILED),
        bytes_moved=read,
    ),
    "row_argmax": Benchmark(
        "row_argmax",
        make=matrix,
        sizes=SIZES,
        dtypes=("float32", "bfloat16"),
        peers=(Peer("torch.max", lambda x: torch.max(x, 1).indices), COMPILED),
        bytes_moved=read,
    ),
    "total_sum": Benchmark(
        "total_sum",
        make=lambda N, dtype: (torch.randn(N, dtype=dtype),),
        sizes=((2**26,), (300_000_007,), (2**29,), (2**30,)),
        dtypes=("float32", "bfloat16"),
        peers=(Peer("torch.sum", torch.sum), COMPILED),
        bytes_moved=lambda N, itemsize: N * itemsize,
    ),
    "variance": Benchmark(
        "variance",
        make=matrix,
        sizes=SHORT_SIZES,
        dtypes=("float32", "bfloat16"),
        peers=(Peer("torch.var", lambda x: torch.var(x, 1)), COMPILED),
        bytes_moved=read,
    ),
    "welford": Benchmark(
        "welford",
        make=matrix,
        sizes=SIZES,
        dtypes=("float32", "bfloat16"),
        peers=(Peer("torch.var_mean", mean_and_variance), COMPILED),
        bytes_moved=read,
    ),
    "cumsum": Benchmark(
        "cumsum",
        make=matrix,
        sizes=((4096, 4096), (16384, 8192), (15_013, 12_007), (1024, 262_144)),
        dtypes=("float32", "bfloat16"),
        peers=(Peer("torch.cumsum", lambda x: torch.cumsum(x, 1)), COMPILED),
        bytes_moved=lambda M, N, itemsize: 2 * M * N * itemsize,
    ),
    "histogram": Benchmark(
        "histogram",
        make=lambda N, bins, dtype: (torch.randint(0, bins, (N,), dtype=dtype), bins),
        sizes=((2**26, 256), (200_000_003, 1000), (2**28, 256), (2**28, 4096)),
        dtypes=("int32",),
        peers=(
            Peer("torch.bincount", lambda x, bins: torch.bincount(x, minlength=bins)),
            Peer("torch.histc", prepare=histc),
            COMPILED,
        ),
        bytes_moved=lambda N, bins, itemsize: (N + bins) * itemsize,
    ),
}
