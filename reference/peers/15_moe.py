"""What a user would take instead of the solutions of chapter 15.

vLLM's moe_align_block_size and MegaBlocks' sort are CUDA extensions, and not here.
"""

from pathlib import Path

import torch
from torch.nn.functional import silu

from course.benchmark.peers import COMPILED, Benchmark, Peer
from kernelgauge.core.paths import load

reference = load(Path(__file__).parents[1] / "15_moe.py")


def logits(T, E, k, dtype):
    return torch.randn(T, E, dtype=dtype), k


def topk_and_softmax(logits, k):
    values, experts = torch.topk(logits, k)
    return torch.softmax(values.float(), dim=1), experts


def weights_by_topk(logits, k):
    """The weights, without the balance. The experts are not compared: topk leaves ties open."""
    return topk_and_softmax(logits, k)[0]


def choices(T, k, E, block, dtype):
    return torch.randint(E, (T, k), dtype=dtype), E, block


def assigned(T, top_k, E, N, K, block, dtype):
    experts = torch.randint(E, (T, top_k), dtype=torch.int32)
    order, _, block_experts = reference.permute_by_sorting(experts, E, block)
    x, weights = torch.randn(T, K, dtype=dtype), torch.randn(E, N, K, dtype=dtype)
    return x, weights, order, block_experts, top_k


def multiply_groups(rows, weights, ends):
    # torch 2.13 gave it a public name. It takes rows whose length in bytes is a multiple of 16, so
    # that the peers with it are called at the large sizes only.
    grouped_mm = getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm
    return grouped_mm(rows, weights.mT, offs=ends)


def gather_grouped_mm_scatter(x, weights, order, block_experts, top_k):
    block, M = len(order) // len(block_experts), len(x) * top_k
    counts = torch.bincount(block_experts + 1, minlength=len(weights) + 1)[1:]
    ends = (counts.cumsum(0) * block).to(torch.int32)
    padding = order >= M
    rows = x[torch.where(padding, 0, order) // top_k]
    y = x.new_empty(M + 1, weights.shape[1])
    y[torch.where(padding, M, order)] = multiply_groups(rows, weights, ends)
    return y[:M]


def layer(T, E, k, D, F, dtype):
    gate_up = torch.randn(E, 2 * F, D, dtype=dtype) / D**0.5
    down = torch.randn(E, D, F, dtype=dtype) / F**0.5
    return torch.randn(T, D, dtype=dtype), torch.randn(T, E), gate_up, down, k


def moe_by_grouped_mm(x, logits, gate_up, down, k):
    weights, experts = topk_and_softmax(logits, k)
    experts = experts.flatten()
    members = torch.sort(experts, stable=True).indices
    counts = torch.bincount(experts, minlength=len(gate_up))
    ends = counts.cumsum(0).to(torch.int32)
    gate, up = multiply_groups(x[members // k], gate_up, ends).chunk(2, dim=1)
    y = multiply_groups(silu(gate) * up, down, ends)
    results = torch.empty_like(y)
    results[members] = y
    return (results.view(len(x), k, -1) * weights[..., None]).sum(1).to(x.dtype)


GROUPED_MM_COMPILED = Peer(
    "grouped_mm, compiled",
    prepare=lambda reference: torch.compile(moe_by_grouped_mm, dynamic=False),
)


BENCHMARKS = {
    "route_top_k": Benchmark(
        "route_top_k",
        make=logits,
        sizes=((262144, 64, 8), (65536, 128, 8), (100_003, 60, 4)),
        peers=(Peer("topk and softmax", weights_by_topk), COMPILED),
        dtypes=("bfloat16", "float32"),
        bytes_moved=lambda T, E, k, itemsize: T * (E * itemsize + 8 * k),
    ),
    "permute_tokens": Benchmark(
        "permute_tokens",
        make=choices,
        sizes=((131072, 8, 64, 128), (131072, 2, 8, 128), (50_001, 8, 256, 64)),
        peers=(
            Peer("torch.compile", prepare=lambda _: torch.compile(reference.permute_by_sorting)),
        ),
        dtypes=("int32",),
        bytes_moved=lambda T, k, E, block, itemsize: T * k * (itemsize + 8),
        baseline="permute_by_sorting",
    ),
    "grouped_expert_gemm": Benchmark(
        "grouped_expert_gemm",
        make=assigned,
        sizes=(
            (8192, 8, 64, 2816, 2048, 128),
            (8192, 2, 8, 16384, 4096, 128),
            (3001, 8, 128, 1536, 2048, 64),
        ),
        peers=(Peer("gather, grouped_mm, scatter", prepare=lambda _: gather_grouped_mm_scatter),),
        dtypes=("bfloat16",),
        operations=lambda T, top_k, E, N, K, block: 2 * T * top_k * N * K,
        varied=True,
        baseline="expert_by_expert",
    ),
    "fused_moe": Benchmark(
        "fused_moe",
        make=layer,
        sizes=((4096, 64, 8, 2048, 1408), (8192, 8, 2, 4096, 16384), (3001, 128, 8, 2048, 768)),
        peers=(Peer("grouped_mm", prepare=lambda _: moe_by_grouped_mm), GROUPED_MM_COMPILED),
        dtypes=("bfloat16",),
        operations=lambda T, E, k, D, F: 6 * T * k * D * F,
    ),
}
