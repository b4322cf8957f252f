"""What a user would take instead of the solutions of chapter 13.

A compiled reference stores its scores, masked or not: the causal ones are not compiled again.
"""

import torch

from judge.benchmark.libraries import flex, sdpa
from judge.benchmark.peers import COMPILED, Benchmark, Peer

SIZES = ((1, 16, 1024, 64), (3, 31, 3001, 64), (4, 32, 4096, 64), (4, 32, 4096, 128))
GROUPED_SIZES = (
    (1, 16, 4, 1024, 64),
    (3, 33, 11, 3001, 64),
    (4, 32, 8, 4096, 64),
    (4, 32, 8, 4096, 128),
)
WINDOW_SIZES = (
    (1, 16, 1024, 64, 128),
    (3, 31, 5003, 64, 777),
    (4, 32, 4096, 64, 2048),
    (4, 32, 4096, 128, 512),
)
DTYPES = ("bfloat16", "float16")


def heads(count):
    """Makes so many of q, k, v (B, H, S, D)."""
    return lambda B, H, S, D, dtype: tuple(
        torch.randn(B, H, S, D, dtype=dtype) for _ in range(count)
    )


def grouped(causal):
    """Makes q (B, H, S, D), k and v (B, Hkv, S, D), the scale and whether it is causal."""

    def make(B, H, Hkv, S, D, dtype):
        q, k, v = (torch.randn(B, h, S, D, dtype=dtype) for h in (H, Hkv, Hkv))
        return q, k, v, None, causal

    return make


def pre_scaled(q, k):
    """The scale multiplies the queries, not the scores."""
    return torch.softmax(q * q.shape[-1] ** -0.5 @ k.mT, -1)


def full(B, H, S, D):
    """Operations of q k^T and of p v."""
    return 4 * B * H * S * S * D


def causal(B, H, S, D):
    return full(B, H, S, D) // 2


def windowed(B, H, S, D, window):
    seen = S * window - window * (window - 1) // 2
    return 4 * B * H * seen * D


def attention(function, causal, operations, *others):
    backends = ("SDPA flash", "SDPA efficient", "SDPA cuDNN")
    return Benchmark(
        function,
        make=heads(3),
        sizes=SIZES,
        dtypes=DTYPES,
        peers=(*(sdpa(name, causal=causal) for name in backends), flex(causal=causal), *others),
        operations=operations,
    )


def grouped_query(causal, *others):
    backends = ("SDPA flash", "SDPA cuDNN")
    return Benchmark(
        "grouped_query_attention",
        make=grouped(causal),
        sizes=GROUPED_SIZES,
        dtypes=DTYPES,
        peers=(*(sdpa(name, causal=causal) for name in backends), flex(causal=causal), *others),
        operations=lambda B, H, Hkv, S, D: full(B, H, S, D) // (2 if causal else 1),
    )


BENCHMARKS = {
    "attention_scores": Benchmark(
        "attention_scores",
        make=heads(2),
        sizes=SIZES,
        dtypes=DTYPES,
        peers=(Peer("matmul, softmax", pre_scaled), COMPILED),
        bytes_moved=lambda B, H, S, D, itemsize: B * H * S * (S + 2 * D) * itemsize,
        operations=lambda B, H, S, D: 2 * B * H * S * S * D,
    ),
    "flash_attention": attention("flash_attention", False, full, COMPILED),
    "causal_attention": attention("causal_attention", True, causal),
    "grouped_query": grouped_query(False, COMPILED),
    "grouped_query:causal": grouped_query(True),
    "sliding_window": Benchmark(
        "sliding_window_attention",
        make=lambda B, H, S, D, window, dtype: (*heads(3)(B, H, S, D, dtype), window),
        sizes=WINDOW_SIZES,
        dtypes=DTYPES,
        peers=(sdpa("SDPA efficient", window=True), flex(window=True), COMPILED),
        operations=windowed,
    ),
}
