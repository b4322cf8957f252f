"""What a user would take instead of the solutions of chapter 08."""

import torch

from judge.benchmark.peers import COMPILED, Benchmark, Peer
from judge.benchmark.workloads import moved, randn


def categorical(x):
    return (
        torch.distributions.Categorical(logits=x.float(), validate_args=False).entropy().to(x.dtype)
    )


def rows_and_lengths(B, T, dtype):
    """Rows of lengths 1 to T, spread evenly."""
    lengths = torch.linspace(1, T, B, dtype=torch.float64).round().long()
    return torch.randn(B, T, dtype=dtype), lengths


BENCHMARKS = {
    "entropy": Benchmark(
        "softmax_entropy",
        make=randn(1),
        sizes=((4096, 4096), (16384, 4096), (8191, 5003), (4096, 32768)),
        peers=(Peer("Categorical.entropy", categorical), COMPILED),
        bytes_moved=moved(1),
    ),
    "ragged_mean": Benchmark(
        "ragged_mean",
        make=rows_and_lengths,
        sizes=((64, 2**20), (256, 2**20), (101, 1_000_003)),
        peers=(COMPILED,),
        # Of lengths that are spread evenly, as these are.
        bytes_moved=lambda B, T, itemsize: B * (T + 1) // 2 * itemsize,
    ),
}
