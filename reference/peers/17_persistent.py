"""What a user would take instead of the solutions of chapter 17."""

from course.benchmark.libraries import attention_peers
from course.benchmark.peers import Benchmark
from course.benchmark.workloads import (
    ATTENTION_SIZES,
    HALF,
    attention_operations,
    matmul,
    randn,
    softmax,
)


def attention(causal):
    return Benchmark(
        "persistent_attention",
        make=lambda *size, dtype: (*randn(3)(*size, dtype=dtype), None, causal),
        sizes=ATTENTION_SIZES,
        dtypes=HALF,
        peers=attention_peers(causal=causal),
        operations=attention_operations(causal=causal),
    )


BENCHMARKS = {
    "persistent_softmax": softmax("persistent_softmax"),
    "persistent_matmul": matmul("persistent_matmul"),
    "descriptor_matmul": matmul("descriptor_matmul"),
    "persistent_attention": attention(causal=False),
    "persistent_attention:causal": attention(causal=True),
}
