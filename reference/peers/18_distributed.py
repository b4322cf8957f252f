"""What a user would take instead of the solutions of chapter 18.

With several GPUs each is a rank. On one GPU some ranks share it, and NCCL, which refuses that, has
no time.
"""

import os

import torch

from course.benchmark.peers import Benchmark, Peer
from course.benchmark.workloads import HALF

GPUS = max(1, torch.cuda.device_count())
# 64 KB to 256 MB a rank.
SIZES = ((2**15,), (2**17,), (2**19,), (2**22,), (10_000_019,), (2**25,), (2**27,))


def ranks(on_one_gpu):
    return GPUS if GPUS > 1 else on_one_gpu


def shards(N, dtype):
    return ([torch.randn(N, dtype=dtype) for _ in range(ranks(on_one_gpu=4))],)


def layer(M, N, K, dtype):
    R = ranks(on_one_gpu=2)
    weights = [torch.randn(K, N, dtype=dtype) / K**0.5 for _ in range(R)]
    return [torch.randn(M, K, dtype=dtype) for _ in range(R)], weights


def bytes_of_a_gpu(N, itemsize):
    return 2 * ranks(on_one_gpu=4) * N * itemsize // GPUS


def nccl(reference):
    # Multicast is not safe on hosts that others use too.
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    from torch.cuda import nccl as library

    def all_reduce(shards):
        results = [torch.empty_like(x) for x in shards]
        library.all_reduce(shards, results)
        return results

    return all_reduce


def isfinite_and_nccl(reference):
    all_reduce = nccl(reference)

    def average(grads):
        faults = [(~torch.isfinite(x)).sum(dtype=torch.int32) for x in grads]
        sums = all_reduce([torch.where(n == 0, x, 0) for x, n in zip(grads, faults, strict=True)])
        healthy = all_reduce([(n == 0).to(torch.int32) for n in faults])
        return [x / n.clamp(min=1) for x, n in zip(sums, healthy, strict=True)], faults

    return average


def product_alone(reference):
    gathered = []

    def multiply(shards, weights):
        if not gathered:
            gathered.extend(torch.cat([x.to(w.device) for x in shards]) for w in weights)
        return [rows @ weight for rows, weight in zip(gathered, weights, strict=True)]

    return multiply


def all_reduces(function):
    return Benchmark(
        function,
        make=shards,
        sizes=SIZES,
        dtypes=("bfloat16",),
        bytes_moved=bytes_of_a_gpu,
        peers=(Peer("NCCL", prepare=nccl),),
        ranks=True,
    )


BENCHMARKS = {
    "all_reduce": all_reduces("all_reduce"),
    "two_shot_all_reduce": all_reduces("two_shot_all_reduce"),
    "average_gradients": Benchmark(
        "average_gradients",
        make=shards,
        sizes=SIZES,
        dtypes=("bfloat16",),
        bytes_moved=bytes_of_a_gpu,
        peers=(Peer("isfinite, NCCL", prepare=isfinite_and_nccl),),
        ranks=True,
    ),
    "all_gather_matmul": Benchmark(
        "all_gather_matmul",
        make=layer,
        sizes=((2048, 4096, 4096), (4096, 8192, 4096), (4001, 4003, 4007)),
        dtypes=HALF[:1],
        peers=(Peer("cuBLAS, rows already there", prepare=product_alone),),
        operations=lambda M, N, K: 2 * ranks(2) ** 2 * M * N * K // GPUS,
        ranks=True,
    ),
}
