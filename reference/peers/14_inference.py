"""What a user would take instead of the solutions of chapter 14."""

import torch
from torch.nn import functional

from course.benchmark.libraries import BACKENDS
from course.benchmark.peers import COMPILED, Benchmark, Peer
from course.benchmark.workloads import HALF

PAGE = 16
# Tokens, heads of keys, D, pages.
APPENDED = ((65536, 8, 128, 8192), (8192, 8, 128, 8192), (10_007, 3, 80, 4099))
# Texts, heads, heads of keys, keys, D.
DECODED = (
    (1, 32, 8, 65536, 128),
    (1, 32, 8, 4096, 128),
    (16, 32, 8, 8192, 128),
    (3, 24, 3, 10_007, 64),
)
# Texts, heads, heads of keys, the longest, D; the others are spread from 1 token on.
PAGED = ((32, 32, 8, 4096, 128), (8, 32, 8, 32_768, 128), (67, 24, 3, 3001, 64))
# Rows, tokens, k, p in per cent.
SAMPLED = (
    (64, 128_256, 50, 90),
    (64, 128_256, 50, 100),
    (64, 131_072, 32, 64),
    (7, 50_257, 5, 100),
)
# Requests, drafts, tokens.
VERIFIED = ((64, 4, 131_072), (64, 4, 128_256), (101, 3, 50_257))


def appended(N, Hkv, D, P, dtype):
    key, value = (torch.randn(N, Hkv, D, dtype=dtype) for _ in range(2))
    caches = (torch.randn(P, PAGE, Hkv, D, dtype=dtype) for _ in range(2))
    slots = torch.randperm(P * PAGE)[:N]
    return key, value, *caches, slots, torch.zeros(1, dtype=torch.int32)


def copy_rows(key, value, key_cache, value_cache, slots, dropped):
    """Takes no padding and counts nothing."""
    for new, cache in ((key, key_cache), (value, value_cache)):
        cache.view(-1, *new.shape[1:]).index_copy_(0, slots, new)


def decoded(B, H, Hkv, T, D, dtype):
    k, v = (torch.randn(B, Hkv, T, D, dtype=dtype) for _ in range(2))
    return torch.randn(B, H, D, dtype=dtype), k, v


def sdpa(name):
    """SDPA by one backend, on one query."""

    def prepare(reference):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        def attend(q, k, v):
            with sdpa_kernel(getattr(SDPBackend, BACKENDS[name])):
                attended = functional.scaled_dot_product_attention(
                    q[:, :, None], k, v, enable_gqa=q.shape[1] != k.shape[1]
                )
            return attended[:, :, 0].contiguous()

        return attend

    return Peer(name, prepare=prepare)


def flex(reference):
    from torch.nn.attention.flex_attention import flex_attention

    compiled = torch.compile(flex_attention, dynamic=False)

    def attend(q, k, v):
        return compiled(q[:, :, None], k, v, enable_gqa=q.shape[1] != k.shape[1])[:, :, 0]

    return attend


def spread(B, longest):
    return [1 + n * (longest - 1) // (B - 1) for n in range(B)]


def paged(B, H, Hkv, longest, D, dtype):
    counts = [-(-length // PAGE) for length in spread(B, longest)]
    caches = (torch.randn(sum(counts), PAGE, Hkv, D, dtype=dtype) for _ in range(2))
    numbers = torch.randperm(sum(counts), dtype=torch.int32)
    tables = torch.zeros(B, max(counts), dtype=torch.int32)
    for row, (count, part) in enumerate(zip(counts, numbers.split(counts), strict=True)):
        tables[row, :count] = part
    lengths = torch.tensor(spread(B, longest), dtype=torch.int32)
    return torch.randn(B, H, D, dtype=dtype), *caches, tables, lengths


def gather_and_attend(q, key_cache, value_cache, block_tables, lengths):
    k, v = (x[block_tables].flatten(1, 2).transpose(1, 2) for x in (key_cache, value_cache))
    seen = torch.arange(k.shape[2], device=q.device) < lengths[:, None]
    attended = functional.scaled_dot_product_attention(
        q[:, :, None], k, v, attn_mask=seen[:, None, None], enable_gqa=q.shape[1] != k.shape[1]
    )
    return attended[:, :, 0].contiguous()


def sampled(B, V, k, percent, dtype):
    return torch.randn(B, V, dtype=dtype) * 2, torch.rand(B), k, 0.7, percent / 100


def verified(B, K, V, dtype):
    q, p = (torch.softmax(2 * torch.randn(B, size, V, dtype=dtype), 2) for size in (K, K + 1))
    return torch.multinomial(q.flatten(0, 1), 1).view(B, K), q, p, torch.rand(B, K + 1)


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
    "flash_decoding": Benchmark(
        "flash_decoding",
        make=decoded,
        sizes=DECODED,
        dtypes=HALF,
        peers=(
            sdpa("SDPA flash"),
            sdpa("SDPA cuDNN"),
            Peer("FlexAttention", prepare=flex),
            COMPILED,
        ),
        bytes_moved=lambda B, H, Hkv, T, D, itemsize: 2 * B * Hkv * T * D * itemsize,
    ),
    "paged_attention": Benchmark(
        "paged_attention",
        make=paged,
        sizes=PAGED,
        dtypes=HALF,
        peers=(Peer("gather, SDPA", gather_and_attend),),
        bytes_moved=lambda B, H, Hkv, longest, D, itemsize: (
            2 * sum(spread(B, longest)) * Hkv * D * itemsize
        ),
        varied=True,
    ),
    "top_k_sampling": Benchmark(
        "top_k_sampling",
        make=sampled,
        sizes=SAMPLED,
        dtypes=("float32",),
        peers=(COMPILED,),
        bytes_moved=lambda B, V, k, percent, itemsize: B * V * itemsize,
    ),
    "speculative_verify": Benchmark(
        "speculative_verify",
        make=verified,
        sizes=VERIFIED,
        dtypes=("float32",),
        peers=(COMPILED,),
        bytes_moved=lambda B, K, V, itemsize: B * V * itemsize,
    ),
}
