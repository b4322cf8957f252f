"""What a user would take instead of the solutions of chapter 03."""

import torch

from course.benchmark.peers import COMPILED, Benchmark, Peer
from course.benchmark.workloads import moved, randn

SIZES = ((16384, 4096), (20_011, 12_007), (32768, 8192), (1024, 524_288))
# Rows that fit on a multiprocessor.
SHORT_SIZES = (*SIZES[:3], (16384, 32768))
CUMSUM_SIZES = ((4096, 4096), (16384, 8192), (15_013, 12_007), (1024, 262_144))


def mean_and_variance(x):
    variance, mean = torch.var_mean(x, 1)
    return mean, variance


def histc(reference):
    """Made from the reference, because torch.histc takes integers on a GPU only."""
    return lambda x, bins: torch.histc(x, bins, 0, bins)


def reduction(function, name, call, sizes=SIZES, tensors=1):
    """A function that moves so many tensors of its input's size, beside one of torch."""
    return Benchmark(
        function,
        make=randn(1),
        sizes=sizes,
        peers=(Peer(name, call), COMPILED),
        bytes_moved=moved(tensors),
    )


BENCHMARKS = {
    "row_sum": reduction("row_sum", "torch.sum", lambda x: torch.sum(x, 1)),
    "row_argmax": reduction("row_argmax", "torch.max", lambda x: torch.max(x, 1).indices),
    "total_sum": reduction(
        "total_sum", "torch.sum", torch.sum, sizes=((2**26,), (300_000_007,), (2**29,), (2**30,))
    ),
    "variance": reduction("variance", "torch.var", lambda x: torch.var(x, 1), sizes=SHORT_SIZES),
    "welford": reduction("welford", "torch.var_mean", mean_and_variance),
    "cumsum": reduction(
        "cumsum", "torch.cumsum", lambda x: torch.cumsum(x, 1), sizes=CUMSUM_SIZES, tensors=2
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
