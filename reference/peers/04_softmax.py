"""What a user would take instead of the solutions of chapter 04."""

import torch
from torch.nn import functional

from course.benchmark.libraries import liger
from course.benchmark.peers import COMPILED, Benchmark, Peer
from course.benchmark.workloads import moved, randn, softmax


def loss(logits, targets):
    return functional.cross_entropy(logits, targets, reduction="none")


def liger_loss(kernel, logits, targets):
    return kernel.apply(logits, targets, None, -100, 0.0, 0.0, "none")[0]


BENCHMARKS = {
    "softmax": softmax("softmax"),
    "column_softmax": Benchmark(
        "column_softmax",
        make=randn(1),
        sizes=((2048, 32768), (6007, 20_011), (4096, 32768), (2**22, 64)),
        peers=(Peer("torch.softmax", lambda x: torch.softmax(x, 0)), COMPILED),
        bytes_moved=moved(2),
    ),
    "online_softmax": softmax(
        "online_softmax", sizes=((64, 131_072), (1024, 131_072), (701, 200_003), (512, 524_288))
    ),
    "cross_entropy": Benchmark(
        "cross_entropy",
        make=lambda M, V, dtype: (torch.randn(M, V, dtype=dtype), torch.randint(0, V, (M,))),
        sizes=((2048, 32768), (8192, 32768), (8191, 50_257), (8192, 128_256)),
        peers=(
            Peer("functional.cross_entropy", loss),
            COMPILED,
            liger("LigerCrossEntropyFunction", liger_loss),
        ),
        bytes_moved=moved(1),
    ),
}
