# The best of those that are left, k times; each program stores its own part of both sums.

import torch
import triton
import triton.language as tl


@triton.jit
def route_kernel(
    logits_ptr, weights_ptr, experts_ptr, parts_ptr,
    T, E,
    K: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    rows = pid * BLOCK_T + tl.arange(0, BLOCK_T)
    cols = tl.arange(0, BLOCK_E)
    mask = (rows[:, None] < T) & (cols[None, :] < E)
    x = tl.load(logits_ptr + rows[:, None] * E + cols[None, :], mask=mask, other=-float("inf"))
    x = x.to(tl.float32)
    highest = tl.max(x, axis=1)
    p = tl.where(mask, tl.exp(x - highest[:, None]), 0.0)
    p = tl.where(mask, p / tl.sum(p, axis=1)[:, None], 0.0)

    free = mask
    offs_k = tl.arange(0, BLOCK_K)[None, :]
    values = tl.full((BLOCK_T, BLOCK_K), -float("inf"), tl.float32)
    for j in tl.static_range(K):
        best = tl.max(tl.where(free, x, -float("inf")), axis=1)
        found = free & (x == best[:, None])
        index = tl.min(tl.where(found, cols[None, :], BLOCK_E), axis=1)
        free = free & (cols[None, :] != index[:, None])
        values = tl.where(offs_k == j, best[:, None], values)
        tl.store(experts_ptr + rows * K + j, index, mask=rows < T)
    weights = tl.exp(values - highest[:, None])
    weights = weights / tl.sum(weights, axis=1)[:, None]
    inside = (rows[:, None] < T) & (offs_k < K)
    tl.store(weights_ptr + rows[:, None] * K + offs_k, weights, mask=inside)

    count = tl.sum((mask & (free == 0)).to(tl.float32), axis=0)
    tl.store(parts_ptr + pid * 2 * E + cols, count, mask=cols < E)
    tl.store(parts_ptr + pid * 2 * E + E + cols, tl.sum(p, axis=0), mask=cols < E)


@triton.jit
def balance_kernel(
    parts_ptr, balance_ptr,
    T, E, parts,
    K: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK_E)
    count = tl.zeros((BLOCK_E,), tl.float32)
    p = tl.zeros((BLOCK_E,), tl.float32)
    for start in range(0, parts, 16):
        rows = start + tl.arange(0, 16)
        mask = (rows[:, None] < parts) & (cols[None, :] < E)
        ptrs = parts_ptr + rows[:, None] * 2 * E + cols[None, :]
        count += tl.sum(tl.load(ptrs, mask=mask, other=0.0), axis=0)
        p += tl.sum(tl.load(ptrs + E, mask=mask, other=0.0), axis=0)
    balance = tl.sum((count / (T * K)) * (p / T), axis=0) * E
    tl.store(balance_ptr, balance)


def route_top_k(logits, k):
    T, E = logits.shape
    weights = torch.empty((T, k), dtype=torch.float32, device=logits.device)
    experts = torch.empty((T, k), dtype=torch.int32, device=logits.device)
    balance = torch.empty((), dtype=torch.float32, device=logits.device)
    BLOCK_T, BLOCK_E = 32, triton.next_power_of_2(E)
    programs = triton.cdiv(T, BLOCK_T)
    parts = torch.empty((programs, 2, E), dtype=torch.float32, device=logits.device)
    route_kernel[(programs,)](
        logits, weights, experts, parts, T, E,
        K=k, BLOCK_T=BLOCK_T, BLOCK_E=BLOCK_E, BLOCK_K=triton.next_power_of_2(k),
    )  # fmt: skip
    balance_kernel[(1,)](parts, balance, T, E, programs, K=k, BLOCK_E=BLOCK_E)
    return weights, experts, balance
