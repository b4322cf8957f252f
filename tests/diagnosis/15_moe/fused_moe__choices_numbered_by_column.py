# fault: the combination looks up the results of a token in row j * T + t, and they lie in t * k + j
# cause: the result of choice j of token t is looked up in row j \* T \+ t
import torch
import triton
import triton.language as tl


@triton.jit
def choose_kernel(
    logits_ptr, weights_ptr, experts_ptr,
    E,
    K: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0)
    e = tl.arange(0, BLOCK_E)
    slot = tl.arange(0, BLOCK_K)
    x = tl.load(logits_ptr + t * E + e, mask=e < E, other=float("-inf")).to(tl.float32)
    free = e < E
    top = tl.max(x, axis=0)
    values = tl.zeros((BLOCK_K,), dtype=tl.float32)
    indices = tl.zeros((BLOCK_K,), dtype=tl.int32)
    for j in tl.static_range(K):
        best = tl.max(tl.where(free, x, float("-inf")), axis=0)
        at = tl.min(tl.where(free & (x == best), e, BLOCK_E), axis=0)
        free = free & (e != at)
        values = tl.where(slot == j, tl.exp(best - top), values)
        indices = tl.where(slot == j, at, indices)
    tl.store(weights_ptr + t * K + slot, values / tl.sum(values, axis=0), mask=slot < K)
    tl.store(experts_ptr + t * K + slot, indices, mask=slot < K)


@triton.jit
def count_kernel(
    experts_ptr, counts_ptr, N, E, tiles, BLOCK: tl.constexpr, BLOCK_E: tl.constexpr
):  # fmt: skip
    a = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    e = tl.arange(0, BLOCK_E)
    expert = tl.load(experts_ptr + a, mask=a < N, other=-1)
    count = tl.sum((expert[:, None] == e[None, :]).to(tl.int32), axis=0)
    tl.store(counts_ptr + e * tiles + tl.program_id(0), count, mask=e < E)


@triton.jit
def scan_kernel(counts_ptr, totals_ptr, tiles, BLOCK: tl.constexpr):
    row = counts_ptr + tl.program_id(0) * tiles
    total = 0
    for start in range(0, tiles, BLOCK):
        i = start + tl.arange(0, BLOCK)
        count = tl.load(row + i, mask=i < tiles, other=0)
        tl.store(row + i, total + tl.cumsum(count, axis=0) - count, mask=i < tiles)
        total += tl.sum(count, axis=0)
    tl.store(totals_ptr + tl.program_id(0), total)


@triton.jit
def place_kernel(
    experts_ptr, counts_ptr, totals_ptr, order_ptr, N, E, tiles,
    block: tl.constexpr, BLOCK: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    a = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    e = tl.arange(0, BLOCK_E)
    padded = tl.cdiv(tl.load(totals_ptr + e, mask=e < E, other=0), block) * block
    begin = tl.cumsum(padded, axis=0) - padded
    begin += tl.load(counts_ptr + e * tiles + tl.program_id(0), mask=e < E, other=0)
    expert = tl.load(experts_ptr + a, mask=a < N, other=-1)
    one = (expert[:, None] == e[None, :]).to(tl.int32)
    place = tl.sum(one * (begin + tl.cumsum(one, axis=0) - 1), axis=1)
    tl.store(order_ptr + place, a, mask=a < N)


@triton.jit
def pad_kernel(
    totals_ptr, order_ptr, block_experts_ptr, N, E, block: tl.constexpr, BLOCK_E: tl.constexpr
):  # fmt: skip
    i = tl.program_id(0)
    e = tl.arange(0, BLOCK_E)
    total = tl.load(totals_ptr + e, mask=e < E, other=0)
    needed = tl.cdiv(total, block)
    ends = tl.cumsum(needed, axis=0)
    expert = tl.sum((ends <= i).to(tl.int32), axis=0)
    used = i < tl.sum(needed, axis=0)
    first = tl.sum(tl.where(e == expert, ends - needed, 0), axis=0)
    filled = tl.sum(tl.where(e == expert, total, 0), axis=0) - (i - first) * block
    row = tl.arange(0, block)
    padding = (row >= filled) | (used == 0)
    tl.store(order_ptr + i * block + row, tl.zeros((block,), tl.int32) + N, mask=padding)
    tl.store(block_experts_ptr + i, tl.where(used, expert, -1))


@triton.jit
def gate_up_kernel(
    x_ptr, gate_up_ptr, order_ptr, block_experts_ptr, h_ptr,
    N, D, F, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """h lies in the order of the experts, padding included."""
    expert = tl.load(block_experts_ptr + tl.program_id(1))
    if expert < 0:
        return
    place = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    a = tl.load(order_ptr + place)
    f = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    w = gate_up_ptr + expert.to(tl.int64) * 2 * F * D
    gate = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, D, BLOCK_K):
        d = start + tl.arange(0, BLOCK_K)
        x = tl.load(
            x_ptr + (a // k)[:, None] * D + d[None, :],
            mask=(a < N)[:, None] & (d < D)[None, :],
            other=0.0,
        )
        mask = (f < F)[None, :] & (d < D)[:, None]
        gate = tl.dot(x, tl.load(w + f[None, :] * D + d[:, None], mask=mask, other=0.0), gate)
        up = tl.dot(x, tl.load(w + (F + f)[None, :] * D + d[:, None], mask=mask, other=0.0), up)
    h = gate / (1 + tl.exp(-gate)) * up
    mask = (a < N)[:, None] & (f < F)[None, :]
    tl.store(h_ptr + place[:, None] * F + f[None, :], h, mask=mask)


@triton.jit
def down_kernel(
    h_ptr, down_ptr, order_ptr, block_experts_ptr, y_ptr,
    N, D, F,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """y lies in the order of the assignments."""
    expert = tl.load(block_experts_ptr + tl.program_id(1))
    if expert < 0:
        return
    place = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    a = tl.load(order_ptr + place)
    d = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    w = down_ptr + expert.to(tl.int64) * D * F
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, F, BLOCK_K):
        f = start + tl.arange(0, BLOCK_K)
        h = tl.load(
            h_ptr + place[:, None] * F + f[None, :],
            mask=(a < N)[:, None] & (f < F)[None, :],
            other=0.0,
        )
        mask = (d < D)[None, :] & (f < F)[:, None]
        acc = tl.dot(h, tl.load(w + d[None, :] * F + f[:, None], mask=mask, other=0.0), acc)
    mask = (a < N)[:, None] & (d < D)[None, :]
    tl.store(y_ptr + a[:, None] * D + d[None, :], acc, mask=mask)


@triton.jit
def combine_kernel(
    y_ptr, weights_ptr, out_ptr,
    T, D,
    K: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0)
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    total = tl.zeros((BLOCK_D,), dtype=tl.float32)
    for j in tl.static_range(K):
        y = tl.load(y_ptr + (j * T + t) * D + d, mask=d < D, other=0.0)
        total += tl.load(weights_ptr + t * K + j) * y.to(tl.float32)
    tl.store(out_ptr + t * D + d, total, mask=d < D)


def fused_moe(
    x: torch.Tensor, logits: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, k: int
) -> torch.Tensor:
    T, D = x.shape
    E, F = gate_up.shape[0], gate_up.shape[1] // 2
    N, device = T * k, x.device
    block = max(16, min(128, triton.next_power_of_2(triton.cdiv(N, E))))
    n = min(N, E)
    blocks = n + (N - n) // block
    TILE, BLOCK_E = 128, triton.next_power_of_2(E)
    tiles = triton.cdiv(N, TILE)

    weights = torch.empty((T, k), dtype=torch.float32, device=device)
    experts = torch.empty((T, k), dtype=torch.int32, device=device)
    counts = torch.empty((E, tiles), dtype=torch.int32, device=device)
    totals = torch.empty((E,), dtype=torch.int32, device=device)
    order = torch.empty((blocks * block,), dtype=torch.int32, device=device)
    block_experts = torch.empty((blocks,), dtype=torch.int32, device=device)
    h = torch.empty((blocks * block, F), dtype=x.dtype, device=device)
    y = torch.empty((N, D), dtype=x.dtype, device=device)
    out = torch.empty((T, D), dtype=x.dtype, device=device)

    choose_kernel[(T,)](
        logits, weights, experts, E, K=k, BLOCK_K=triton.next_power_of_2(k), BLOCK_E=BLOCK_E
    )
    count_kernel[(tiles,)](experts, counts, N, E, tiles, BLOCK=TILE, BLOCK_E=BLOCK_E)
    scan_kernel[(E,)](counts, totals, tiles, BLOCK=128)
    place_kernel[(tiles,)](
        experts, counts, totals, order, N, E, tiles, block=block, BLOCK=TILE, BLOCK_E=BLOCK_E
    )
    pad_kernel[(blocks,)](totals, order, block_experts, N, E, block=block, BLOCK_E=BLOCK_E)
    gate_up_kernel[(triton.cdiv(F, 64), blocks)](
        x, gate_up, order, block_experts, h, N, D, F, k, BLOCK_M=block, BLOCK_N=64, BLOCK_K=32
    )
    down_kernel[(triton.cdiv(D, 64), blocks)](
        h, down, order, block_experts, y, N, D, F, BLOCK_M=block, BLOCK_N=64, BLOCK_K=32
    )
    combine_kernel[(T, triton.cdiv(D, 256))](y, weights, out, T, D, K=k, BLOCK_D=256)
    return out
