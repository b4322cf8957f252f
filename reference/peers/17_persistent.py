"""What a user would take instead of the solutions of chapter 17."""

import torch

from judge.benchmark.libraries import CUBLASLT, flex, liger, sdpa
from judge.benchmark.peers import COMPILED, Benchmark, Peer

ROWS = ((4096, 4096), (16384, 4096), (20_011, 6007), (4096, 32768), (32768, 8192))
PRODUCTS = ((2048,) * 3, (4096,) * 3, (4003, 4001, 4007), (8192,) * 3)
HEADS = ((1, 16, 1024, 64), (3, 31, 3001, 64), (4, 32, 4096, 64), (4, 32, 4096, 128))


def product(function):
    return Benchmark(
        function,
        make=lambda M, N, K, dtype: (
            torch.randn(M, K, dtype=dtype),
            torch.randn(K, N, dtype=dtype),
        ),
        sizes=PRODUCTS,
        dtypes=("bfloat16", "float16"),
        peers=(CUBLASLT,),
        bytes_moved=lambda M, N, K, itemsize: (M * K + K * N + M * N) * itemsize,
        operations=lambda M, N, K: 2 * M * N * K,
    )


def attention(causal):
    backends = ("SDPA flash", "SDPA efficient", "SDPA cuDNN")

    def make(B, H, S, D, dtype):
        q, k, v = (torch.randn(B, H, S, D, dtype=dtype) for _ in range(3))
        return q, k, v, None, causal

    return Benchmark(
        "persistent_attention",
        make=make,
        sizes=HEADS,
        dtypes=("bfloat16", "float16"),
        peers=(*(sdpa(name, causal=causal) for name in backends), flex(causal=causal)),
        operations=lambda B, H, S, D: (2 if causal else 4) * B * H * S * S * D,
    )


BENCHMARKS = {
    "persistent_softmax": Benchmark(
        "persistent_softmax",
        make=lambda M, N, dtype: (torch.randn(M, N, dtype=dtype),),
        sizes=ROWS,
        dtypes=("float32", "bfloat16"),
        peers=(
            Peer("torch.softmax", lambda x: torch.softmax(x, 1)),
            COMPILED,
            liger("LigerSoftmaxFunction", lambda kernel, x: kernel.apply(x)),
        ),
        bytes_moved=lambda M, N, itemsize: 2 * M * N * itemsize,
    ),
    "persistent_matmul": product("persistent_matmul"),
    "descriptor_matmul": product("descriptor_matmul"),
    "persistent_attention": attention(causal=False),
    "persistent_attention:causal": attention(causal=True),
}
