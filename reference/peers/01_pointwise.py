"""What a user would take instead of the solutions of chapter 01."""

import torch
from torch.nn import functional

from course.benchmark.peers import COMPILED, Benchmark, Peer
from course.benchmark.workloads import moved, randn

SIZES = ((2**20,), (2**24,), (2**27,), (200_000_003,), (2**28,))
COEFFICIENTS = (1.0, -1.0, 0.5, -0.25, 0.125, -0.0625, 0.03125, -0.015625)


def pointwise(function, vectors, *peers, make=None, dtypes=("float32",)):
    """A function that reads so many vectors and writes one."""
    return Benchmark(
        function,
        make=make or randn(vectors),
        sizes=SIZES,
        dtypes=dtypes,
        peers=(*peers, COMPILED),
        bytes_moved=moved(vectors + 1),
    )


def vector_and_coefficients(N, dtype):
    return torch.randn(N, dtype=dtype), COEFFICIENTS


BENCHMARKS = {
    "vector_copy": pointwise(
        "vector_copy", 1, Peer("Tensor.copy_", lambda x: torch.empty_like(x).copy_(x))
    ),
    "square": pointwise("square", 1, Peer("torch.square", torch.square)),
    "relu": pointwise("relu", 1, Peer("torch.relu", torch.relu)),
    "vector_add": pointwise("vector_add", 2, Peer("torch.add", torch.add)),
    "fma": pointwise(
        "fused_multiply_add",
        3,
        Peer("torch.addcmul", lambda x, y, z: torch.addcmul(z, x, y)),
    ),
    "swish": pointwise(
        "swish", 1, Peer("functional.silu", functional.silu), dtypes=("float32", "bfloat16")
    ),
    "polynomial": pointwise("polynomial", 1, make=vector_and_coefficients),
    "complex_multiply": pointwise(
        "complex_multiply", 2, Peer("torch.mul", torch.mul), dtypes=("complex64",)
    ),
}
