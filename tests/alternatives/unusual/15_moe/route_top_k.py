# Keys of 64 bits, the pattern of the number above and the expert below, of which the largest are
# taken one after the other; the sums of a program are one row of partial sums.
import torch
import triton
import triton.language as tl


@triton.jit
def route_kernel(
    logits_ptr, weights_ptr, experts_ptr, parts_ptr, T, E,
    K: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, PADDED_K: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col, j = tl.arange(0, COLUMNS)[None, :], tl.arange(0, PADDED_K)[None, :]
    mask = (row < T)[:, None] & (col < E)
    x = tl.load(logits_ptr + row[:, None] * E + col, mask=mask, other=float("-inf"))
    x = x.to(tl.float32) + 0.0
    top = tl.max(x, 1)[:, None]
    p = tl.where(mask, tl.exp(x - tl.where(row[:, None] < T, top, 0.0)), 0.0)
    p = p / tl.where(row < T, tl.sum(p, 1), 1.0)[:, None]
    bits = x.to(tl.int32, bitcast=True)
    key = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64) * 2048 + (1024 - col)
    least = tl.full((), -(2**62), tl.int64)
    key = tl.where(mask, key, least)
    chosen = tl.zeros((ROWS, COLUMNS), tl.int1)
    values = tl.full((ROWS, PADDED_K), float("-inf"), tl.float32)
    experts = tl.zeros((ROWS, PADDED_K), tl.int32)
    for step in range(K):
        best = tl.max(tl.where(chosen, least, key), 1)[:, None]
        hit = key == best
        chosen = chosen | hit
        values = tl.where(j == step, tl.max(tl.where(hit, x, float("-inf")), 1)[:, None], values)
        experts = tl.where(j == step, (1024 - (best & 2047)).to(tl.int32), experts)
    weights = tl.exp(values - top)
    weights = weights / tl.sum(weights, 1, keep_dims=True)
    at = row[:, None] * K + j
    tl.store(weights_ptr + at, weights, mask=(row < T)[:, None] & (j < K))
    tl.store(experts_ptr + at, experts, mask=(row < T)[:, None] & (j < K))
    part = parts_ptr + tl.program_id(0) * 2 * E
    count = tl.sum((chosen & mask).to(tl.float32), 0)[None, :]
    tl.store(part + col, count, mask=col < E)
    tl.store(part + E + col, tl.sum(p, 0)[None, :], mask=col < E)


@triton.jit
def balance_kernel(parts_ptr, balance_ptr, parts, T, E, K, COLUMNS: tl.constexpr):
    col = tl.arange(0, COLUMNS)
    count = tl.zeros((COLUMNS,), tl.float32)
    mass = count
    for i in range(parts):
        count += tl.load(parts_ptr + i * 2 * E + col, mask=col < E, other=0)
        mass += tl.load(parts_ptr + (i * 2 + 1) * E + col, mask=col < E, other=0)
    tl.store(balance_ptr, tl.sum(count / K * mass, 0) * E / T / T)


def route_top_k(logits, k):
    (T, E), new = logits.shape, {"dtype": torch.float32, "device": logits.device}
    programs, columns = triton.cdiv(T, 16), triton.next_power_of_2(E)
    weights, parts = torch.empty((T, k), **new), torch.empty((programs, 2, E), **new)
    experts, balance = torch.empty_like(weights, dtype=torch.int32), torch.empty((), **new)
    route_kernel[(programs,)](
        logits, weights, experts, parts, T, E, k, 16, columns, triton.next_power_of_2(k)
    )
    balance_kernel[(1,)](parts, balance, programs, T, E, k, columns)
    return weights, experts, balance
