"""15.4  Mixture of experts: one good answer.

gate and up are two sums of one kernel, so that rows of x are gathered once for both, and only
silu(gate) * up is stored. A block is about as long as an expert's share, 16 to 128 rows, so that
few rows are padding. The second product stores by assignment, and the last kernel weighs and adds
the rows of each token in a fixed order. Large products load weights by descriptors, as in 07.5: on
an H200 9.7 ms instead of 12.2 for 8192 tokens, 2 of 8 experts and 4096 x 16384 (2026-11-26).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

MOST_EXPERTS = 1024
LANES = 4096
# Multiplications from which on descriptors gain time.
LARGE = 2**26
TILE = 1024

INDEX = tl.constexpr(MOST_EXPERTS - 1)  # the bits of a key that hold the expert
LEAST = tl.constexpr(-(2**31))


# 15.1: keys that order the experts as the choice does.


@triton.jit
def to_keys(x, offs_e):
    value = x.to(tl.float32)
    bits = tl.where(value == 0, 0.0, value).to(tl.int32, bitcast=True)  # -0.0 equals 0.0
    bits = tl.where(value != value, 0x7FFFFFFF, bits)  # NaN is above all
    order = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    # A float16 or bfloat16 leaves the last 13 bits of a float32 unused.
    keys = order.to(tl.int64) << 32 if x.dtype == tl.float32 else order & ~INDEX
    return keys | (offs_e ^ INDEX)


@triton.jit
def to_values(keys):
    unused = INDEX if keys.dtype == tl.int32 else 0
    order = (keys if keys.dtype == tl.int32 else keys >> 32).to(tl.int32) & ~unused
    bits = order ^ ((order >> 31) & 0x7FFFFFFF)
    return (bits & ~unused).to(tl.float32, bitcast=True)


@triton.jit
def route_kernel(
    logits_ptr, weights_ptr, experts_ptr,
    T, E,
    stride_t, stride_e,
    K: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    offs_t = tl.program_id(0).to(tl.int64) * BLOCK_T + tl.arange(0, BLOCK_T)
    offs_e, offs_k = tl.arange(0, BLOCK_E), tl.arange(0, BLOCK_K)
    KEY: tl.constexpr = tl.int64 if logits_ptr.dtype.element_ty == tl.float32 else tl.int32
    least = tl.full((), LEAST, KEY) << (KEY.primitive_bitwidth - 32)
    mask = (offs_t < T)[:, None] & (offs_e < E)[None, :]
    ptrs = logits_ptr + offs_t[:, None] * stride_t + offs_e[None, :].to(tl.int64) * stride_e
    keys = to_keys(tl.load(ptrs, mask=mask, other=0.0), offs_e[None, :])
    keys = tl.where(mask, keys, least)
    taken = tl.zeros((BLOCK_T, BLOCK_K), KEY)
    for j in range(K):
        best = tl.max(keys, axis=1, keep_dims=True)
        taken = tl.where(offs_k[None, :] == j, best, taken)
        keys = tl.where(keys == best, least, keys)
    values = to_values(taken)
    highest = tl.sum(tl.where(offs_k[None, :] == 0, values, 0.0), axis=1, keep_dims=True)
    terms = tl.where(offs_k[None, :] < K, tl.exp(values - highest), 0.0)
    out = offs_t[:, None] * K + offs_k[None, :]
    mask_k = (offs_t < T)[:, None] & (offs_k < K)[None, :]
    tl.store(weights_ptr + out, terms / tl.sum(terms, axis=1, keep_dims=True), mask=mask_k)
    tl.store(experts_ptr + out, (taken & INDEX).to(tl.int32) ^ INDEX, mask=mask_k)


# 15.2, but for the inverse: what the experts return is stored by assignment.


@triton.jit
def count_kernel(
    experts_ptr, counts_ptr,
    N, E, tiles,
    BLOCK: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    offs = tile * BLOCK + tl.arange(0, BLOCK)
    experts = tl.load(experts_ptr + offs, mask=offs < N, other=0)
    counts = tl.histogram(experts, BLOCK_E, mask=offs < N)
    offs_e = tl.arange(0, BLOCK_E)
    tl.store(counts_ptr + offs_e * tiles + tile, counts, mask=offs_e < E)


@triton.jit
def scan_kernel(
    counts_ptr, totals_ptr,
    tiles,
    BLOCK: tl.constexpr,
):  # fmt: skip
    expert = tl.program_id(0)
    total = tl.zeros((), tl.int32)
    for start in range(0, tiles, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        ptrs = counts_ptr + expert * tiles + offs
        counts = tl.load(ptrs, mask=offs < tiles, other=0)
        tl.store(ptrs, total + tl.cumsum(counts, axis=0) - counts, mask=offs < tiles)
        total += tl.sum(counts, axis=0)
    tl.store(totals_ptr + expert, total)


@triton.jit
def load_starts(totals_ptr, offs_e, E, block: tl.constexpr):
    totals = tl.load(totals_ptr + offs_e, mask=offs_e < E, other=0)
    padded = tl.cdiv(totals, block) * block
    return totals, tl.cumsum(padded, axis=0) - padded


@triton.jit
def place_kernel(
    experts_ptr, counts_ptr, totals_ptr, order_ptr,
    N, E, tiles,
    block: tl.constexpr,
    BLOCK: tl.constexpr, STEP: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    offs_e = tl.arange(0, BLOCK_E)
    _, starts = load_starts(totals_ptr, offs_e, E, block)
    before = tl.load(counts_ptr + offs_e * tiles + tile, mask=offs_e < E, other=0)
    following = starts + before  # the next free place of each expert
    for step in range(0, BLOCK, STEP):
        offs = tile * BLOCK + step + tl.arange(0, STEP)
        experts = tl.load(experts_ptr + offs, mask=offs < N, other=-1)
        mine = (experts[:, None] == offs_e[None, :]).to(tl.int32)  # [STEP, BLOCK_E]
        rank = tl.cumsum(mine, axis=0) - 1
        place = tl.sum(mine * (following[None, :] + rank), axis=1)
        tl.store(order_ptr + place, offs, mask=offs < N)
        following += tl.sum(mine, axis=0)


@triton.jit
def pad_kernel(
    totals_ptr, order_ptr, block_experts_ptr,
    N, E, blocks,
    block: tl.constexpr,
    BLOCK_E: tl.constexpr, BLOCK_B: tl.constexpr,
):  # fmt: skip
    offs_b = tl.program_id(0) * BLOCK_B + tl.arange(0, BLOCK_B)
    offs_e = tl.arange(0, BLOCK_E)
    totals, starts = load_starts(totals_ptr, offs_e, E, block)
    ends = starts + tl.cdiv(totals, block) * block
    over = (ends[None, :] <= offs_b[:, None] * block) & (offs_e < E)[None, :]
    owner = tl.sum(over.to(tl.int32), axis=1)  # E where no expert is left
    tl.store(block_experts_ptr + offs_b, tl.where(owner < E, owner, -1), mask=offs_b < blocks)
    mine = owner[:, None] == offs_e[None, :]
    last = tl.sum(tl.where(mine, (starts + totals)[None, :], 0), axis=1)
    places = offs_b[:, None] * block + tl.arange(0, block)[None, :]
    padding = (places >= last[:, None]) & (offs_b < blocks)[:, None]
    tl.store(order_ptr + places, N, mask=padding)


# 15.3, twice: rows are gathered by the first product and scattered by the second.


@triton.jit
def find_tile(columns, blocks, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """Return the block of order and the tile of columns that this program computes."""
    pid = tl.program_id(0)
    tiles_n = tl.cdiv(columns, BLOCK_N)
    first_m = pid // (GROUP_M * tiles_n) * GROUP_M
    rows = min(blocks - first_m, GROUP_M)
    place = pid % (GROUP_M * tiles_n)
    return (first_m + place % rows).to(tl.int64), (place // rows).to(tl.int64)


@triton.jit
def gate_up_kernel(
    x_ptr, gate_up_ptr, gate_up_descriptor, order_ptr, block_experts_ptr, h_ptr,
    N, D, F, k, blocks,
    stride_xt, stride_xd,
    stride_ge, stride_gf, stride_gd,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    block, tile_n = find_tile(F, blocks, BLOCK_N, GROUP_M)
    expert = tl.load(block_experts_ptr + block).to(tl.int64)
    if expert < 0:
        return
    offs_m = block * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)
    assignments = tl.load(order_ptr + offs_m).to(tl.int64)
    mask_m, mask_n = assignments < N, offs_n < F
    x_ptrs = x_ptr + assignments[:, None] // k * stride_xt + offs_k[None, :] * stride_xd
    gate_ptrs = gate_up_ptr + expert * stride_ge
    gate_ptrs += offs_k[:, None] * stride_gd + offs_n[None, :] * stride_gf
    up_ptrs = gate_ptrs + tl.cast(stride_gf, tl.int64) * F
    x_step = tl.cast(stride_xd, tl.int64) * BLOCK_K
    weight_step = tl.cast(stride_gd, tl.int64) * BLOCK_K
    gate = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # As in 07.5: with a path that skips the loop, Triton 3.6 waits for each wgmma.
    tl.assume(D > 0)
    for d in range(0, D, BLOCK_K):
        mask_k = offs_k < D - d
        x = tl.load(x_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
        if gate_up_descriptor is None:
            mask_w = mask_k[:, None] & mask_n[None, :]
            gate_weight = tl.load(gate_ptrs, mask=mask_w, other=0.0)
            up_weight = tl.load(up_ptrs, mask=mask_w, other=0.0)
        else:
            e, f = expert.to(tl.int32), tile_n.to(tl.int32) * BLOCK_N
            gate_weight = gate_up_descriptor.load([e, f, d]).reshape(BLOCK_N, BLOCK_K).T
            up_weight = gate_up_descriptor.load([e, F + f, d]).reshape(BLOCK_N, BLOCK_K).T
        gate = tl.dot(x, gate_weight, gate)
        up = tl.dot(x, up_weight, up)
        x_ptrs += x_step
        gate_ptrs += weight_step
        up_ptrs += weight_step
    h_ptrs = h_ptr + offs_m[:, None] * F + offs_n[None, :]
    tl.store(h_ptrs, gate * tl.sigmoid(gate) * up, mask=mask_m[:, None] & mask_n[None, :])


@triton.jit
def down_kernel(
    h_ptr, down_ptr, h_descriptor, down_descriptor, order_ptr, block_experts_ptr, y_ptr,
    N, D, F, blocks,
    stride_de, stride_dd, stride_df,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    block, tile_n = find_tile(D, blocks, BLOCK_N, GROUP_M)
    expert = tl.load(block_experts_ptr + block).to(tl.int64)
    if expert < 0:
        return
    offs_m = block * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)
    assignments = tl.load(order_ptr + offs_m).to(tl.int64)
    mask_m, mask_n = assignments < N, offs_n < D
    h_ptrs = h_ptr + offs_m[:, None] * F + offs_k[None, :]
    down_ptrs = down_ptr + expert * stride_de
    down_ptrs += offs_k[:, None] * stride_df + offs_n[None, :] * stride_dd
    down_step = tl.cast(stride_df, tl.int64) * BLOCK_K
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    tl.assume(F > 0)
    for f in range(0, F, BLOCK_K):
        if down_descriptor is None:
            mask_k = offs_k < F - f
            h = tl.load(h_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
            down = tl.load(down_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
        else:
            # What h has in rows of padding is not stored.
            h = h_descriptor.load([block.to(tl.int32) * BLOCK_M, f])
            e, n = expert.to(tl.int32), tile_n.to(tl.int32) * BLOCK_N
            down = down_descriptor.load([e, n, f]).reshape(BLOCK_N, BLOCK_K).T
        acc = tl.dot(h, down, acc)
        h_ptrs += BLOCK_K
        down_ptrs += down_step
    y_ptrs = y_ptr + assignments[:, None] * D + offs_n[None, :]
    tl.store(y_ptrs, acc, mask=mask_m[:, None] & mask_n[None, :])


@triton.jit
def combine_kernel(
    y_ptr, weights_ptr, out_ptr,
    T, D,
    K: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    tiles_d = tl.cdiv(D, BLOCK_D)
    token = (tl.program_id(0) // tiles_d).to(tl.int64)
    offs_d = tl.program_id(0) % tiles_d * BLOCK_D + tl.arange(0, BLOCK_D)
    out = tl.zeros((BLOCK_D,), tl.float32)
    for j in range(K):
        a = token * K + j
        y = tl.load(y_ptr + a * D + offs_d, mask=offs_d < D, other=0.0)
        out += tl.load(weights_ptr + a) * y.to(tl.float32)
    tl.store(out_ptr + token * D + offs_d, out, mask=offs_d < D)


def check(x, logits, gate_up, down, k) -> None:
    """Raise ValueError unless these fit together."""
    if x.dim() != 2 or x.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"x must be 2-D, float16 or bfloat16, not {x.dtype} {tuple(x.shape)}")
    T, D = x.shape
    found = f"{gate_up.dtype} {tuple(gate_up.shape)}"
    if gate_up.dim() != 3 or gate_up.dtype != x.dtype:
        raise ValueError(f"gate_up must be {x.dtype} (E, 2 F, {D}), not {found}")
    E, rows, columns = gate_up.shape
    if E > MOST_EXPERTS or rows % 2 or columns != D:
        raise ValueError(
            f"gate_up must be (E, 2 F, {D}) with E at most {MOST_EXPERTS}, not {found}"
        )
    if down.shape != (E, D, rows // 2) or down.dtype != x.dtype:
        raise ValueError(
            f"down must be {x.dtype} {(E, D, rows // 2)}, not {down.dtype} {tuple(down.shape)}"
        )
    if logits.shape != (T, E) or logits.dtype not in (torch.float32, x.dtype):
        raise ValueError(
            f"logits must be float32 or {x.dtype} {(T, E)}, not {logits.dtype} "
            f"{tuple(logits.shape)}"
        )
    if not 1 <= k <= E:
        raise ValueError(f"k must be from 1 to the number of experts, {E}, not {k}")


def shared_memory(device: torch.device) -> int:
    """How many bytes of shared memory a program can have; an H100's in the interpreter."""
    if device.type != "cuda":
        return 227 * 1024
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


def has_tma(device: torch.device) -> bool:
    """Whether there is a tensor memory accelerator, and shared memory for four stages of tiles."""
    if device.type == "cuda" and torch.cuda.get_device_properties(device).major < 9:
        return False
    return shared_memory(device) >= 200 * 1024


def is_addressable(x: torch.Tensor) -> bool:
    """Whether the tensor memory accelerator can fetch tiles of x."""
    steps = [stride * x.element_size() for stride in x.stride()[:-1]]
    aligned = x.data_ptr() % 16 == 0 and all(it > 0 and it % 16 == 0 for it in steps)
    return aligned and x.stride(-1) == 1


def fused_moe(
    x: torch.Tensor, logits: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, k: int
) -> torch.Tensor:
    check(x, logits, gate_up, down, k)
    (T, D), E, F = x.shape, down.shape[0], down.shape[2]
    N = T * k
    # Blocks as long as an expert's share, so that few of their rows are padding.
    block = min(128, max(16, triton.next_power_of_2(N // E)))
    least = min(N, E)
    blocks = least + (N - least) // block
    tiles = triton.cdiv(N, TILE)
    experts, order, block_experts, counts, totals = (
        torch.empty(size, dtype=torch.int32, device=x.device)
        for size in (N, blocks * block, blocks, E * tiles, E)
    )
    weights = torch.empty(N, dtype=torch.float32, device=x.device)
    h = torch.empty((blocks * block, F), dtype=x.dtype, device=x.device)
    y = torch.empty((N, D), dtype=x.dtype, device=x.device)
    out = torch.empty((T, D), dtype=x.dtype, device=x.device)

    BLOCK_E = triton.next_power_of_2(E)
    BLOCK_T = max(1, LANES // BLOCK_E)
    route_kernel[(triton.cdiv(T, BLOCK_T),)](
        logits, weights, experts, T, E, *logits.stride(),
        K=k, BLOCK_T=BLOCK_T, BLOCK_E=BLOCK_E, BLOCK_K=triton.next_power_of_2(k),
    )  # fmt: skip
    count_kernel[(tiles,)](experts, counts, N, E, tiles, BLOCK=TILE, BLOCK_E=BLOCK_E)
    scan_kernel[(E,)](counts, totals, tiles, BLOCK=1024)
    place_kernel[(tiles,)](
        experts, counts, totals, order, N, E, tiles, block,
        BLOCK=TILE, STEP=min(TILE, max(16, 2 * LANES // BLOCK_E)), BLOCK_E=BLOCK_E,
    )  # fmt: skip
    pad_kernel[(triton.cdiv(blocks, 16),)](
        totals, order, block_experts, N, E, blocks, block, BLOCK_E=BLOCK_E, BLOCK_B=16
    )

    # Two accumulators of BLOCK_N columns in the first product, one of twice as many in the second.
    BLOCK_N = min(128 if block > 32 else 64, max(16, triton.next_power_of_2(F)))
    large = N * D * F >= LARGE and block == 128 and has_tma(x.device)
    descriptor = None
    # A tile of gate_up must not run on from gate into up.
    if large and F % BLOCK_N == 0 and is_addressable(gate_up):
        descriptor = TensorDescriptor.from_tensor(gate_up, [1, BLOCK_N, 64])
    gate_up_kernel[(blocks * triton.cdiv(F, BLOCK_N),)](
        x, gate_up, descriptor, order, block_experts, h,
        N, D, F, k, blocks, *x.stride(), *gate_up.stride(),
        BLOCK_M=block, BLOCK_N=BLOCK_N, BLOCK_K=64, GROUP_M=8,
        num_warps=8 if block * BLOCK_N > 64 * 128 else 4, num_stages=3,
    )  # fmt: skip
    BLOCK_N = min(256 if block > 32 else 128, max(16, triton.next_power_of_2(D)))
    descriptors = None, None
    if large and is_addressable(h) and is_addressable(down):
        descriptors = (
            TensorDescriptor.from_tensor(h, [block, 64]),
            TensorDescriptor.from_tensor(down, [1, BLOCK_N, 64]),
        )
    down_kernel[(blocks * triton.cdiv(D, BLOCK_N),)](
        h, down, *descriptors, order, block_experts, y, N, D, F, blocks, *down.stride(),
        BLOCK_M=block, BLOCK_N=BLOCK_N, BLOCK_K=64, GROUP_M=8,
        num_warps=8 if block * BLOCK_N > 128 * 128 else 4,
        num_stages=3 if descriptors[0] is None else 4,
    )  # fmt: skip
    BLOCK_D = min(1024, triton.next_power_of_2(D))
    combine_kernel[(T * triton.cdiv(D, BLOCK_D),)](y, weights, out, T, D, K=k, BLOCK_D=BLOCK_D)
    return out
