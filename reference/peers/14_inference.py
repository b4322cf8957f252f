"""What a user would take instead of the solutions of chapter 14."""

import torch

from judge.benchmark.peers import COMPILED, Benchmark, Peer
from judge.benchmark.workloads import HALF

# Tokens, heads of keys, D, pages.
APPENDED = ((65536, 8, 128, 8192), (8192, 8, 128, 8192), (10_007, 3, 80, 4099))


def appended(N, Hkv, D, P, dtype, page=16):
    key, value = (torch.randn(N, Hkv, D, dtype=dtype) for _ in range(2))
    caches = (torch.randn(P, page, Hkv, D, dtype=dtype) for _ in range(2))
    slots = torch.randperm(P * page)[:N]
    return key, value, *caches, slots, torch.zeros(1, dtype=torch.int32)


def copy_rows(key, value, key_cache, value_cache, slots, dropped):
    """Takes no padding and counts nothing."""
    for new, cache in ((key, key_cache), (value, value_cache)):
        cache.view(-1, *new.shape[1:]).index_copy_(0, slots, new)


BENCHMARKS = {
    "kv_cache_append": Benchmark(
        "kv_cache_append",
        make=appended,
        sizes=APPENDED,
        dtypes=HALF,
        peers=(Peer("index_copy_", copy_rows), COMPILED),
        bytes_moved=lambda N, Hkv, D, P, itemsize: 4 * N * Hkv * D * itemsize,
        varied=True,
    ),
}
