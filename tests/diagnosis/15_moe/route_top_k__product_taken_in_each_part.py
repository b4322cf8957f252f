# fault: counts and probabilities of each part are multiplied before they are added up
# cause: add them up first

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
    tokens = pid * BLOCK_T + tl.arange(0, BLOCK_T)
    lanes = tl.arange(0, BLOCK_E)
    choices = tl.arange(0, BLOCK_K)
    mask = (tokens < T)[:, None] & (lanes < E)[None, :]
    offs = tokens[:, None] * E + lanes[None, :]
    logits = tl.load(logits_ptr + offs, mask=mask, other=float("-inf")).to(tl.float32)

    largest = tl.max(logits, axis=1)
    probs = tl.exp(logits - largest[:, None])
    probs = probs / tl.sum(probs, axis=1)[:, None]
    probs = tl.where(mask, probs, 0.0)

    free = (lanes < E)[None, :] & (tokens >= 0)[:, None]
    counts = tl.zeros((BLOCK_T, BLOCK_E), dtype=tl.float32)
    values = tl.full((BLOCK_T, BLOCK_K), float("-inf"), dtype=tl.float32)
    for j in tl.static_range(K):
        best = tl.max(tl.where(free, logits, float("-inf")), axis=1)
        is_best = free & (logits == best[:, None])
        expert = tl.min(tl.where(is_best, lanes[None, :], BLOCK_E), axis=1)
        taken = lanes[None, :] == expert[:, None]
        free = free & (lanes[None, :] != expert[:, None])
        counts += (taken & mask).to(tl.float32)
        values = tl.where(choices[None, :] == j, best[:, None], values)
        tl.store(experts_ptr + tokens * K + j, expert, mask=tokens < T)

    weights = tl.exp(values - largest[:, None])
    weights = weights / tl.sum(weights, axis=1)[:, None]
    weight_mask = (tokens < T)[:, None] & (choices < K)[None, :]
    tl.store(weights_ptr + tokens[:, None] * K + choices[None, :], weights, mask=weight_mask)

    part = parts_ptr + pid * 2 * E + lanes
    tl.store(part, tl.sum(counts, axis=0), mask=lanes < E)
    tl.store(part + E, tl.sum(probs, axis=0), mask=lanes < E)


@triton.jit
def balance_kernel(
    parts_ptr, balance_ptr,
    T, E, parts,
    K: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    lanes = tl.arange(0, BLOCK_E)
    balance = tl.zeros((BLOCK_E,), dtype=tl.float32)
    for i in range(parts):
        part = parts_ptr + i * 2 * E + lanes
        counts = tl.load(part, mask=lanes < E, other=0.0)
        probs = tl.load(part + E, mask=lanes < E, other=0.0)
        balance += (counts / (T * K)) * (probs / T)
    tl.store(balance_ptr, E * tl.sum(balance))


def route_top_k(logits: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    T, E = logits.shape
    device = logits.device
    weights = torch.empty((T, k), dtype=torch.float32, device=device)
    experts = torch.empty((T, k), dtype=torch.int32, device=device)
    balance = torch.empty((), dtype=torch.float32, device=device)
    BLOCK_T, BLOCK_E = 32, triton.next_power_of_2(E)
    parts = triton.cdiv(T, BLOCK_T)
    sums = torch.empty((parts, 2, E), dtype=torch.float32, device=device)
    route_kernel[(parts,)](
        logits, weights, experts, sums,
        T, E,
        K=k, BLOCK_T=BLOCK_T, BLOCK_E=BLOCK_E, BLOCK_K=triton.next_power_of_2(k),
    )  # fmt: skip
    balance_kernel[(1,)](sums, balance, T, E, parts, K=k, BLOCK_E=BLOCK_E)
    return weights, experts, balance
