"""15.1  Choose k experts: one good answer.

Logit and expert are packed into one integer that has the order of the choice, so that the best one
is a plain maximum and no two are equal; for logits of 16 bits, 32 bits suffice. Each program adds
up its part of the balance over a strip of tokens, and a second launch adds at most 1024 parts in a
fixed order.
"""

import torch
import triton
import triton.language as tl

MOST_EXPERTS = 1024
# Programs, each with a part of the two sums over tokens: enough to fill a large GPU a few times.
MOST_PARTS = 1024
LANES = 4096

INDEX = tl.constexpr(MOST_EXPERTS - 1)  # the bits of a key that hold the expert
LEAST = tl.constexpr(-(2**31))


@triton.jit
def to_keys(x, offs_e):
    """Return integers that no two experts share, ordered as the choice orders the experts."""
    value = x.to(tl.float32)
    bits = tl.where(value == 0, 0.0, value).to(tl.int32, bitcast=True)  # -0.0 equals 0.0
    bits = tl.where(value != value, 0x7FFFFFFF, bits)  # NaN is above all
    order = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    # A float16 or bfloat16 leaves the last 13 bits of a float32 unused.
    keys = order.to(tl.int64) << 32 if x.dtype == tl.float32 else order & ~INDEX
    return keys | (offs_e ^ INDEX)


@triton.jit
def to_values(keys):
    """Return the logits, float32, that these keys were made of."""
    unused = INDEX if keys.dtype == tl.int32 else 0
    order = (keys if keys.dtype == tl.int32 else keys >> 32).to(tl.int32) & ~unused
    bits = order ^ ((order >> 31) & 0x7FFFFFFF)
    return (bits & ~unused).to(tl.float32, bitcast=True)


@triton.jit
def route_kernel(
    logits_ptr, weights_ptr, experts_ptr, parts_ptr,
    T, E, strip,
    stride_t, stride_e,
    K: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    offs_e, offs_k = tl.arange(0, BLOCK_E), tl.arange(0, BLOCK_K)
    mask_e = offs_e < E
    KEY: tl.constexpr = tl.int64 if logits_ptr.dtype.element_ty == tl.float32 else tl.int32
    # Below the key of -inf.
    least = tl.full((), LEAST, KEY) << (KEY.primitive_bitwidth - 32)
    chosen = tl.zeros((BLOCK_E,), tl.int32)
    probability = tl.zeros((BLOCK_E,), tl.float32)
    first = tl.program_id(0) * strip
    for start in range(first, min(first + strip, T), BLOCK_T):
        offs_t = start.to(tl.int64) + tl.arange(0, BLOCK_T)
        mask_t = offs_t < T
        mask = mask_t[:, None] & mask_e[None, :]
        ptrs = logits_ptr + offs_t[:, None] * stride_t + offs_e[None, :].to(tl.int64) * stride_e
        x = tl.load(ptrs, mask=mask, other=0.0)
        keys = tl.where(mask, to_keys(x, offs_e[None, :]), least)
        taken = tl.zeros((BLOCK_T, BLOCK_K), KEY)
        for j in range(K):
            best = tl.max(keys, axis=1, keep_dims=True)
            taken = tl.where(offs_k[None, :] == j, best, taken)
            keys = tl.where(keys == best, least, keys)
        values = to_values(taken)
        # The largest comes first, and if it is NaN, so is all that is computed with it.
        highest = tl.sum(tl.where(offs_k[None, :] == 0, values, 0.0), axis=1, keep_dims=True)
        terms = tl.where(offs_k[None, :] < K, tl.exp(values - highest), 0.0)
        weights = terms / tl.sum(terms, axis=1, keep_dims=True)
        out = offs_t[:, None] * K + offs_k[None, :]
        mask_k = mask_t[:, None] & (offs_k[None, :] < K)
        tl.store(weights_ptr + out, weights, mask=mask_k)
        tl.store(experts_ptr + out, (taken & INDEX).to(tl.int32) ^ INDEX, mask=mask_k)
        # Rows past T count for nobody.
        terms = tl.where(mask, tl.exp(x.to(tl.float32) - highest), 0.0)
        share = tl.where(mask_t, 1.0 / tl.sum(terms, axis=1), 0.0)
        probability += tl.sum(terms * share[:, None], axis=0)
        chosen += tl.sum((mask & (keys == least)).to(tl.int32), axis=0)
    parts = parts_ptr + tl.program_id(0) * 2 * E + offs_e
    tl.store(parts, chosen.to(tl.float32), mask=mask_e)
    tl.store(parts + E, probability, mask=mask_e)


@triton.jit
def balance_kernel(
    parts_ptr, balance_ptr,
    T, E, parts,
    K: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    offs_p, offs_e = tl.arange(0, BLOCK_P), tl.arange(0, BLOCK_E)
    chosen = tl.zeros((BLOCK_P, BLOCK_E), tl.float32)
    probability = tl.zeros((BLOCK_P, BLOCK_E), tl.float32)
    for start in range(0, parts, BLOCK_P):
        mask = (start + offs_p[:, None] < parts) & (offs_e[None, :] < E)
        ptrs = parts_ptr + (start + offs_p[:, None]) * 2 * E + offs_e[None, :]
        chosen += tl.load(ptrs, mask=mask, other=0.0)
        probability += tl.load(ptrs + E, mask=mask, other=0.0)
    shares = tl.sum(chosen, axis=0) / T / K
    tl.store(balance_ptr, E * tl.sum(shares * (tl.sum(probability, axis=0) / T), axis=0))


def route_top_k(logits: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    floats = (torch.float16, torch.bfloat16, torch.float32)
    if logits.dim() != 2 or logits.dtype not in floats or logits.shape[1] > MOST_EXPERTS:
        raise ValueError(
            "logits must be 2-D, float16, bfloat16 or float32, with at most "
            f"{MOST_EXPERTS} columns, not {logits.dtype} {tuple(logits.shape)}"
        )
    T, E = logits.shape
    if not 1 <= k <= E:
        raise ValueError(f"k must be from 1 to the number of experts, {E}, not {k}")
    BLOCK_E = triton.next_power_of_2(E)
    BLOCK_T = max(1, LANES // BLOCK_E)
    strip = triton.cdiv(triton.cdiv(T, MOST_PARTS), BLOCK_T) * BLOCK_T  # tokens of one program
    parts = triton.cdiv(T, strip)
    weights = torch.empty((T, k), dtype=torch.float32, device=logits.device)
    experts = torch.empty((T, k), dtype=torch.int32, device=logits.device)
    balance = torch.empty((), dtype=torch.float32, device=logits.device)
    sums = torch.empty((parts, 2, E), dtype=torch.float32, device=logits.device)
    route_kernel[(parts,)](
        logits, weights, experts, sums, T, E, strip, *logits.stride(),
        K=k, BLOCK_T=BLOCK_T, BLOCK_E=BLOCK_E, BLOCK_K=triton.next_power_of_2(k), num_warps=4,
    )  # fmt: skip
    balance_kernel[(1,)](
        sums, balance, T, E, parts,
        K=k, BLOCK_P=max(1, LANES // BLOCK_E), BLOCK_E=BLOCK_E, num_warps=8,
    )  # fmt: skip
    return weights, experts, balance
