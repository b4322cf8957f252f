"""References of chapter 15: what each puzzle computes, in plain PyTorch."""

import torch


def route_top_k(logits, k):
    E = logits.shape[1]
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    # On a GPU torch.sort orders a NaN by its sign.
    logits = torch.where(logits.isnan(), torch.nan, logits)
    values, experts = torch.sort(logits, dim=1, descending=True, stable=True)
    values, experts = values[:, :k], experts[:, :k]
    share = torch.bincount(experts.flatten(), minlength=E).to(logits.dtype) / experts.numel()
    probability = torch.softmax(logits, dim=1).mean(0)
    return torch.softmax(values, dim=1), experts.to(torch.int32), E * (share * probability).sum()


def permute_tokens(experts, num_experts, block):
    experts, N = experts.flatten(), experts.numel()
    least = min(N, num_experts)
    blocks = least + (N - least) // block
    options = {"dtype": torch.int32, "device": experts.device}
    order = torch.full((blocks * block,), N, **options)
    inverse = torch.full((N,), -1, **options)
    block_experts = torch.full((blocks,), -1, **options)
    used = 0
    for expert in range(num_experts):
        members = (experts == expert).nonzero().flatten()
        first, count = used * block, len(members)
        order[first : first + count] = members.to(torch.int32)
        inverse[members] = torch.arange(first, first + count, **options)
        end = used + -(-count // block)
        block_experts[used:end] = expert
        used = end
    return order, inverse, block_experts


def permute_by_sorting(experts, num_experts, block):
    """The same, all experts at once: what PyTorch has for it, and what the race is against."""
    experts, N = experts.flatten(), experts.numel()
    least = min(N, num_experts)
    blocks = least + (N - least) // block
    options = {"dtype": torch.int32, "device": experts.device}
    members = torch.sort(experts, stable=True).indices
    counts = torch.bincount(experts, minlength=num_experts)
    ends = torch.cumsum((counts + block - 1) // block * block, 0)
    starts = ends - (counts + block - 1) // block * block
    shift = starts - (torch.cumsum(counts, 0) - counts)
    places = torch.arange(N, device=experts.device) + shift[experts[members]]
    order = torch.full((blocks * block,), N, **options)
    order[places] = members.to(torch.int32)
    inverse = torch.empty(N, **options)
    inverse[members] = places.to(torch.int32)
    firsts = torch.arange(blocks, device=experts.device) * block
    owner = torch.searchsorted(ends, firsts, right=True)
    block_experts = owner.where(owner < num_experts, -1).to(torch.int32)
    return order, inverse, block_experts


def grouped_expert_gemm(x, weights, order, block_experts, top_k=1):
    y = x.new_zeros(len(x) * top_k, weights.shape[1])
    rows = order.view(len(block_experts), -1).long()
    for block, expert in zip(rows, block_experts.tolist(), strict=True):
        taken = block[block < len(y)]
        if expert >= 0:
            y[taken] = x[taken // top_k] @ weights[expert].T
    return y


def expert_by_expert(x, weights, order, block_experts, top_k=1):
    """The same with one product an expert: what the race is against."""
    y = x.new_zeros(len(x) * top_k, weights.shape[1])
    rows = order.view(len(block_experts), -1).long()
    for expert, weight in enumerate(weights):
        taken = rows[block_experts == expert].flatten()
        taken = taken[taken < len(y)]
        y[taken] = x[taken // top_k] @ weight.T
    return y


def fused_moe(x, logits, gate_up, down, k):
    weights, experts, _ = route_top_k(logits, k)
    out = torch.zeros(x.shape, dtype=weights.dtype, device=x.device)
    for expert in range(len(gate_up)):
        tokens, choices = torch.where(experts == expert)
        gate, up = (x[tokens] @ gate_up[expert].T).chunk(2, dim=1)
        y = (torch.nn.functional.silu(gate) * up) @ down[expert].T
        out[tokens] += weights[tokens, choices, None] * y
    return out.to(x.dtype)
