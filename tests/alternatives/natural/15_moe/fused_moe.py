# The kernels of the first three puzzles one after the other, with blocks of one length. The second
# product weighs what it stores, in the order of the experts, and the last kernel gathers.

import torch
import triton
import triton.language as tl


@triton.jit
def route_kernel(
    logits_ptr, weights_ptr, experts_ptr,
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


@triton.jit
def count_kernel(
    experts_ptr, counts_ptr,
    N, E,
    BLOCK: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    cols = tl.arange(0, BLOCK_E)
    experts = tl.load(experts_ptr + offs, mask=offs < N, other=-1)
    hot = (experts[:, None] == cols[None, :]).to(tl.int32)
    tl.store(counts_ptr + pid * E + cols, tl.sum(hot, axis=0), mask=cols < E)


@triton.jit
def scan_kernel(
    counts_ptr, starts_ptr, block_experts_ptr,
    E, tiles, blocks,
    block: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK_E)
    total = tl.zeros((BLOCK_E,), tl.int32)
    for first in range(0, tiles, BLOCK):
        rows = first + tl.arange(0, BLOCK)
        mask = (rows[:, None] < tiles) & (cols[None, :] < E)
        ptrs = counts_ptr + rows[:, None] * E + cols[None, :]
        counts = tl.load(ptrs, mask=mask, other=0)
        tl.store(ptrs, total[None, :] + tl.cumsum(counts, axis=0) - counts, mask=mask)
        total += tl.sum(counts, axis=0)
    used = (total + block - 1) // block
    ends = tl.cumsum(used, axis=0)
    tl.store(starts_ptr + cols, (ends - used) * block, mask=cols < E)
    for first in range(0, blocks, BLOCK):
        numbers = first + tl.arange(0, BLOCK)
        over = (ends[None, :] <= numbers[:, None]) & (cols[None, :] < E)
        owner = tl.sum(over.to(tl.int32), axis=1)
        owner = tl.where(owner < E, owner, -1)
        tl.store(block_experts_ptr + numbers, owner, mask=numbers < blocks)


@triton.jit
def place_kernel(
    experts_ptr, counts_ptr, starts_ptr, order_ptr, inverse_ptr,
    N, E,
    BLOCK: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    cols = tl.arange(0, BLOCK_E)
    experts = tl.load(experts_ptr + offs, mask=offs < N, other=-1)
    starts = tl.load(starts_ptr + cols, mask=cols < E, other=0)
    starts += tl.load(counts_ptr + pid * E + cols, mask=cols < E, other=0)
    hot = (experts[:, None] == cols[None, :]).to(tl.int32)
    rank = tl.cumsum(hot, axis=0) - 1
    places = tl.sum(hot * (starts[None, :] + rank), axis=1)
    tl.store(order_ptr + places, offs, mask=offs < N)
    tl.store(inverse_ptr + offs, places, mask=offs < N)


@triton.jit
def gate_up_kernel(
    x_ptr, gate_up_ptr, order_ptr, block_experts_ptr, h_ptr,
    N, D, F, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    expert = tl.load(block_experts_ptr + block)
    if expert >= 0:
        places = block * BLOCK_M + tl.arange(0, BLOCK_M)
        a = tl.load(order_ptr + places)
        gate = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        up = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(0, D, BLOCK_K):
            d = start + tl.arange(0, BLOCK_K)
            rows = x_ptr + (a[:, None] // k) * D + d[None, :]
            x = tl.load(rows, mask=(a[:, None] < N) & (d[None, :] < D), other=0.0)
            ptrs = gate_up_ptr + expert * 2 * F * D + cols[None, :] * D + d[:, None]
            mask = (cols[None, :] < F) & (d[:, None] < D)
            gate += tl.dot(x, tl.load(ptrs, mask=mask, other=0.0))
            up += tl.dot(x, tl.load(ptrs + F * D, mask=mask, other=0.0))
        h = gate * tl.sigmoid(gate) * up
        h_ptrs = h_ptr + places[:, None] * F + cols[None, :]
        inside = (a[:, None] < N) & (cols[None, :] < F)
        tl.store(h_ptrs, h.to(h_ptr.dtype.element_ty), mask=inside)


@triton.jit
def down_kernel(
    h_ptr, down_ptr, order_ptr, block_experts_ptr, y_ptr,
    weights_ptr,
    N, D, F,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    expert = tl.load(block_experts_ptr + block)
    if expert >= 0:
        places = block * BLOCK_M + tl.arange(0, BLOCK_M)
        a = tl.load(order_ptr + places)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(0, F, BLOCK_K):
            f = start + tl.arange(0, BLOCK_K)
            h_ptrs = h_ptr + places[:, None] * F + f[None, :]
            h = tl.load(h_ptrs, mask=(a[:, None] < N) & (f[None, :] < F), other=0.0)
            ptrs = down_ptr + expert * D * F + cols[None, :] * F + f[:, None]
            mask = (cols[None, :] < D) & (f[:, None] < F)
            acc += tl.dot(h, tl.load(ptrs, mask=mask, other=0.0))
        acc *= tl.load(weights_ptr + a, mask=a < N, other=0.0)[:, None]
        y_ptrs = y_ptr + places[:, None] * D + cols[None, :]
        inside = (a[:, None] < N) & (cols[None, :] < D)
        tl.store(y_ptrs, acc.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def combine_kernel(
    y_ptr, inverse_ptr, out_ptr,
    T, D,
    K: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0)
    cols = tl.arange(0, BLOCK_D)
    acc = tl.zeros((BLOCK_D,), dtype=tl.float32)
    for j in range(K):
        place = tl.load(inverse_ptr + t * K + j)
        acc += tl.load(y_ptr + place * D + cols, mask=cols < D, other=0.0).to(tl.float32)
    tl.store(out_ptr + t * D + cols, acc.to(out_ptr.dtype.element_ty), mask=cols < D)


def fused_moe(x, logits, gate_up, down, k):
    (T, D), (E, _, F), device = x.shape, down.shape, x.device
    N, block = T * k, 64
    least = min(N, E)
    blocks = least + (N - least) // block
    BLOCK, BLOCK_E = 256, triton.next_power_of_2(E)
    tiles = triton.cdiv(N, BLOCK)
    weights = torch.empty(N, dtype=torch.float32, device=device)
    experts = torch.empty(N, dtype=torch.int32, device=device)
    route_kernel[(triton.cdiv(T, 16),)](
        logits, weights, experts, T, E,
        K=k, BLOCK_T=16, BLOCK_E=BLOCK_E, BLOCK_K=triton.next_power_of_2(k),
    )  # fmt: skip

    order = torch.full((blocks * block,), N, dtype=torch.int32, device=device)
    inverse = torch.empty(N, dtype=torch.int32, device=device)
    block_experts = torch.empty(blocks, dtype=torch.int32, device=device)
    counts = torch.empty((tiles, E), dtype=torch.int32, device=device)
    starts = torch.empty(E, dtype=torch.int32, device=device)
    count_kernel[(tiles,)](experts, counts, N, E, BLOCK=BLOCK, BLOCK_E=BLOCK_E, num_warps=8)
    scan_kernel[(1,)](
        counts, starts, block_experts, E, tiles, blocks, block, BLOCK=64, BLOCK_E=BLOCK_E
    )
    place_kernel[(tiles,)](
        experts, counts, starts, order, inverse, N, E, BLOCK=BLOCK, BLOCK_E=BLOCK_E, num_warps=8
    )

    h = torch.empty((blocks * block, F), dtype=x.dtype, device=device)
    y = torch.empty((blocks * block, D), dtype=x.dtype, device=device)
    out = torch.empty_like(x)
    gate_up_kernel[(blocks, triton.cdiv(F, 64))](
        x, gate_up, order, block_experts, h, N, D, F, k, BLOCK_M=block, BLOCK_N=64, BLOCK_K=64
    )
    down_kernel[(blocks, triton.cdiv(D, 128))](
        h, down, order, block_experts, y, weights, N, D, F, BLOCK_M=block, BLOCK_N=128, BLOCK_K=64
    )
    combine_kernel[(T,)](y, inverse, out, T, D, K=k, BLOCK_D=triton.next_power_of_2(D))
    return out
