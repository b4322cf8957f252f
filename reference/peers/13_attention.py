"""What a user would take instead of the solutions of chapter 13.

A compiled reference stores all scores, masked or not, so the causal ones are not compiled as well.
"""

import torch

from course.benchmark.libraries import attention_peers, flex, sdpa
from course.benchmark.peers import COMPILED, Benchmark, Peer
from course.benchmark.workloads import ATTENTION_SIZES, HALF, attention_operations, randn

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


def pre_scaled(q, k):
    """Scales the queries, not the scores."""
    return torch.softmax(q * q.shape[-1] ** -0.5 @ k.mT, -1)


def windowed(B, H, S, D, window):
    visible = S * window - window * (window - 1) // 2
    return 4 * B * H * visible * D


def attention(function, causal, *others):
    return Benchmark(
        function,
        make=randn(3),
        sizes=ATTENTION_SIZES,
        dtypes=HALF,
        peers=(*attention_peers(causal=causal), *others),
        operations=attention_operations(causal=causal),
    )


def grouped_query(causal, *others):
    def make(B, H, Hkv, S, D, dtype):
        q, k, v = (torch.randn(B, h, S, D, dtype=dtype) for h in (H, Hkv, Hkv))
        return q, k, v, None, causal

    return Benchmark(
        "grouped_query_attention",
        make=make,
        sizes=GROUPED_SIZES,
        dtypes=HALF,
        peers=(*attention_peers(causal=causal, backends=("SDPA flash", "SDPA cuDNN")), *others),
        operations=lambda B, H, Hkv, S, D: attention_operations(causal=causal)(B, H, S, D),
    )


BENCHMARKS = {
    "attention_scores": Benchmark(
        "attention_scores",
        make=randn(2),
        sizes=ATTENTION_SIZES,
        dtypes=HALF,
        peers=(Peer("matmul, softmax", pre_scaled), COMPILED),
        bytes_moved=lambda B, H, S, D, itemsize: B * H * S * (S + 2 * D) * itemsize,
        operations=attention_operations(products=1),
    ),
    "flash_attention": attention("flash_attention", False, COMPILED),
    "causal_attention": attention("causal_attention", True),
    "grouped_query": grouped_query(False, COMPILED),
    "grouped_query:causal": grouped_query(True),
    "sliding_window": Benchmark(
        "sliding_window_attention",
        make=lambda B, H, S, D, window, dtype: (*randn(3)(B, H, S, D, dtype=dtype), window),
        sizes=WINDOW_SIZES,
        dtypes=HALF,
        peers=(sdpa("SDPA efficient", window=True), flex(window=True), COMPILED),
        operations=windowed,
    ),
}
