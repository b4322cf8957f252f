"""What a user would take instead of the solutions of chapter 01."""

import torch
from torch.nn import functional

from judge.benchmark.peers import COMPILED, Benchmark, Peer

SIZES = ((2**20,), (2**24,), (2**27,), (200_000_003,), (2**28,))
COEFFICIENTS = (1.0, -1.0, 0.5, -0.25, 0.125, -0.0625, 0.03125, -0.015625)


def vectors(count):
    """Makes so many vectors of N random numbers."""
    return lambda N, dtype: tuple(torch.randn(N, dtype=dtype) for _ in range(count))


def moved(vectors):
    """Bytes of so many vectors, read or written once each."""
    return lambda N, itemsize: vectors * N * itemsize


BENCHMARKS = {
    "vector_copy": Benchmark(
        "vector_copy",
        make=vectors(1),
        sizes=SIZES,
        dtypes=("float32",),
        peers=(Peer("Tensor.copy_", lambda x: torch.empty_like(x).copy_(x)), COMPILED),
        bytes_moved=moved(2),
    ),
    "vector_add": Benchmark(
        "vector_add",
        make=vectors(2),
        sizes=SIZES,
        dtypes=("float32",),
        peers=(Peer("torch.add", torch.add), COMPILED),
        bytes_moved=moved(3),
    ),
    "fma": Benchmark(
        "fused_multiply_add",
        make=vectors(3),
        sizes=SIZES,
        dtypes=("float32",),
        peers=(Peer("torch.addcmul", lambda x, y, z: torch.addcmul(z, x, y)), COMPILED),
        bytes_moved=moved(4),
    ),
    "swish": Benchmark(
        "swish",
        make=vectors(1),
        sizes=SIZES,
        dtypes=("float32", "bfloat16"),
        peers=(Peer("functional.silu", functional.silu), COMPILED),
        bytes_moved=moved(2),
    ),
    "polynomial": Benchmark(
        "polynomial",
        make=lambda N, dtype: (torch.randn(N, dtype=dtype), COEFFICIENTS),
        sizes=SIZES,
        dtypes=("float32",),
        peers=(COMPILED,),
        bytes_moved=moved(2),
    ),
    "complex_multiply": Benchmark(
        "complex_multiply",
        make=vectors(2),
        sizes=SIZES,
        dtypes=("complex64",),
        peers=(Peer("torch.mul", torch.mul), COMPILED),
        bytes_moved=moved(3),
    ),
}
