"""What a user would take instead of the solutions of chapter 19."""

import torch

from course.benchmark.peers import COMPILED, Benchmark, Peer
from course.benchmark.workloads import moved, randn

BENCHMARKS = {
    "barrier_ring": Benchmark(
        "barrier_ring",
        make=randn(1),
        sizes=((4096, 4096), (8192, 8192), (16384, 16384), (10_007, 3000)),
        peers=(Peer("torch.mul", lambda x: torch.mul(x, 2)), COMPILED),
        bytes_moved=moved(2),
    ),
}
