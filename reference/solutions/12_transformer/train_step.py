"""12.7  One training step of a transformer block: one good answer.

Attention keeps no scores in memory: the backward pass makes them again from lse, as in chapter 16.
The head has the logits of at most 2048 rows at a time, as in 12.6, and each of their rows begins at
a line of the cache. A weight is updated as soon as its gradient has gone through it, so that the
gradients of all weights are never in memory together.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

NORM_EPS = 1e-6
# The logits of at most so many rows are in memory at a time.
CHUNK = 2048
# A product of so few tiles gets narrower ones, or a part of the GPU would be idle.
FEW = 100
# A norm's gradient is added up by at most so many programs, whose parts are added in order.
MOST_GROUPS = 264

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, added_ptr, count_ptr,
    M, N, K, rows_b, width,
    stride_am, stride_ak, stride_bk, stride_bn,
    ADD: tl.constexpr, DIVIDE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """c = (a @ b + added) / count, c and added contiguous; ADD and DIVIDE say which there are.

    rows_b: of b, if not K; the others count as 0. width: of c, if not N; the rest is -inf.
    """
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP_M * tiles_n) * GROUP_M
    rows = min(tiles_m - first_m, GROUP_M)
    place = pid % (GROUP_M * tiles_n)
    offs_m = (first_m + place % rows).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = (place // rows).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)
    mask_m, mask_n = offs_m < M, offs_n < N
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # Without a path that skips the loop, Triton 3.6 keeps several wgmma under way (see 07.5).
    tl.assume(K > 0)
    for k in range(0, K, BLOCK_K):
        mask_k = offs_k < K - k
        a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
        mask_b = mask_k if rows_b is None else offs_k < rows_b - k
        b = tl.load(b_ptrs, mask=mask_b[:, None] & mask_n[None, :], other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += tl.cast(stride_ak, tl.int64) * BLOCK_K
        b_ptrs += tl.cast(stride_bk, tl.int64) * BLOCK_K
    if width is not None:
        acc += tl.where(mask_n, 0.0, float("-inf"))[None, :]
        N, mask_n = width, offs_n < width
    offsets = offs_m[:, None] * N + offs_n[None, :]
    mask = mask_m[:, None] & mask_n[None, :]
    if ADD:
        acc += tl.load(added_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    if DIVIDE:
        acc = acc / tl.load(count_ptr)
    tl.store(c_ptr + offsets, acc, mask=mask)


@triton.jit
def copy_rows_kernel(x_ptr, out_ptr, S, D, stride_b, stride_s, stride_d, BLOCK: tl.constexpr):
    """Gather x (B, S, D) of any strides; one program a row."""
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, D, BLOCK):
        offs_d = (start + tl.arange(0, BLOCK)).to(tl.int64)
        ptrs = x_ptr + row // S * stride_b + row % S * stride_s + offs_d * stride_d
        tl.store(out_ptr + row * D + offs_d, tl.load(ptrs, mask=offs_d < D), mask=offs_d < D)


@triton.jit
def rms_norm_kernel(
    x_ptr, weight_ptr, y_ptr, rstd_ptr,
    M, D, eps,
    stride_w,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.arange(0, BLOCK_D).to(tl.int64)[None, :]
    mask = (rows < M) & (cols < D)
    x = tl.load(x_ptr + rows * D + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=1, keep_dims=True) / D + eps)
    weight = tl.load(weight_ptr + cols * stride_w, mask=cols < D, other=0.0).to(tl.float32)
    tl.store(y_ptr + rows * D + cols, x * rstd * weight, mask=mask)
    tl.store(rstd_ptr + rows, rstd, mask=rows < M)


@triton.jit
def rms_norm_backward_kernel(
    dy_ptr, x_ptr, weight_ptr, rstd_ptr, skip_ptr, dx_ptr, partial_ptr,
    M, D,
    stride_w,
    NEED_DX: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """dx = skip + the gradient through the norm: skip is what went past it."""
    group, groups = tl.program_id(0), tl.num_programs(0)
    cols = tl.arange(0, BLOCK_D)[None, :]
    weight = tl.load(weight_ptr + cols.to(tl.int64) * stride_w, mask=cols < D, other=0.0)
    dweight = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    for start in range(group * BLOCK_M, M, groups * BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M).to(tl.int64)[:, None]
        mask = (rows < M) & (cols < D)
        dy = tl.load(dy_ptr + rows * D + cols, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + rows * D + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + rows, mask=rows < M, other=0.0)
        x_hat = x * rstd
        dweight += dy * x_hat
        if NEED_DX:
            dx_hat = dy * weight.to(tl.float32)
            along = tl.sum(dx_hat * x_hat, axis=1, keep_dims=True) / D
            skip = tl.load(skip_ptr + rows * D + cols, mask=mask, other=0.0).to(tl.float32)
            dx = (dx_hat - x_hat * along) * rstd + skip
            tl.store(dx_ptr + rows * D + cols, dx, mask=mask)
    cols = tl.arange(0, BLOCK_D)
    tl.store(partial_ptr + group * D + cols, tl.sum(dweight, axis=0), mask=cols < D)


@triton.jit
def rope_kernel(
    qkv_ptr, cos_ptr, sin_ptr,
    M, S, H, D,
    stride_cs, stride_cd, stride_ss, stride_sd,
    INVERSE: tl.constexpr, HALF: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Turn q and k in place: the first 2 H heads of qkv (M, 3 D)."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.arange(0, HALF).to(tl.int64)[None, :]
    mask = rows < M
    place = rows % S
    cos = tl.load(cos_ptr + place * stride_cs + cols * stride_cd, mask=mask, other=0.0)
    sin = tl.load(sin_ptr + place * stride_ss + cols * stride_sd, mask=mask, other=0.0)
    if INVERSE:
        sin = -sin
    for head in range(2 * H):
        ptrs = qkv_ptr + rows * (3 * D) + head * (2 * HALF) + cols
        first = tl.load(ptrs, mask=mask, other=0.0).to(tl.float32)
        second = tl.load(ptrs + HALF, mask=mask, other=0.0).to(tl.float32)
        tl.store(ptrs, first * cos - second * sin, mask=mask)
        tl.store(ptrs + HALF, second * cos + first * sin, mask=mask)


@triton.jit
def attention_kernel(
    qkv_ptr, out_ptr, lse_ptr,
    S, H, D, log2_scale,
    E: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Causal: one program attends for BLOCK_M queries of a head. lse is in base 2."""
    # The last queries see the most keys: begin with them.
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    b, h = (tl.program_id(1) // H).to(tl.int64), tl.program_id(1) % H
    offs_e = tl.arange(0, E)
    q_ptr = qkv_ptr + b * S * 3 * D + h * E
    k_ptr, v_ptr = q_ptr + D, q_ptr + 2 * D
    offs_m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    q_ptrs = q_ptr + offs_m[:, None].to(tl.int64) * (3 * D) + offs_e[None, :]
    q = tl.load(q_ptrs, mask=offs_m[:, None] < S, other=0.0)
    acc = tl.zeros((BLOCK_M, E), dtype=tl.float32)
    m = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for start in range(0, tl.minimum(S, tile * BLOCK_M + BLOCK_M), BLOCK_N):
        rows = (start + offs_n).to(tl.int64)[:, None] * (3 * D) + offs_e[None, :]
        inside = (offs_n < S - start)[:, None]
        k = tl.load(k_ptr + rows, mask=inside, other=0.0)
        v = tl.load(v_ptr + rows, mask=inside, other=0.0)
        scores = tl.dot(q, k.T) * log2_scale
        # No key past the end is seen either, except by queries past the end.
        scores = tl.where(start + offs_n[None, :] <= offs_m[:, None], scores, float("-inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        p = tl.exp2(scores - m_new[:, None])
        correction = tl.exp2(m - m_new)
        total = total * correction + tl.sum(p, axis=1)
        acc = tl.dot(p.to(v.dtype), v, acc * correction[:, None])
        m = m_new
    out_ptrs = out_ptr + (b * S + offs_m[:, None]) * D + h * E + offs_e[None, :]
    tl.store(out_ptrs, acc / total[:, None], mask=offs_m[:, None] < S)
    lse_ptrs = lse_ptr + tl.program_id(1).to(tl.int64) * S + offs_m
    tl.store(lse_ptrs, m + tl.log2(total), mask=offs_m < S)


@triton.jit
def delta_kernel(out_ptr, dout_ptr, delta_ptr, S, H, D, E: tl.constexpr, BLOCK_M: tl.constexpr):
    """delta = sum of out * dout over a head's features."""
    b, h = (tl.program_id(1) // H).to(tl.int64), tl.program_id(1) % H
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offsets = (b * S + offs_m[:, None]) * D + h * E + tl.arange(0, E)[None, :]
    mask = offs_m[:, None] < S
    out = tl.load(out_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    dout = tl.load(dout_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    delta_ptrs = delta_ptr + tl.program_id(1).to(tl.int64) * S + offs_m
    tl.store(delta_ptrs, tl.sum(out * dout, axis=1), mask=offs_m < S)


@triton.jit
def attention_dq_kernel(
    qkv_ptr, dout_ptr, lse_ptr, delta_ptr, dqkv_ptr,
    S, H, D, scale, log2_scale,
    E: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    b, h = (tl.program_id(1) // H).to(tl.int64), tl.program_id(1) % H
    offs_e = tl.arange(0, E)
    q_ptr = qkv_ptr + b * S * 3 * D + h * E
    offs_m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    mask_m = offs_m[:, None] < S
    q_rows = offs_m[:, None].to(tl.int64) * (3 * D) + offs_e[None, :]
    q = tl.load(q_ptr + q_rows, mask=mask_m, other=0.0)
    dout_ptrs = dout_ptr + (b * S + offs_m[:, None]) * D + h * E + offs_e[None, :]
    dout = tl.load(dout_ptrs, mask=mask_m, other=0.0)
    lse_offsets = tl.program_id(1).to(tl.int64) * S + offs_m
    # exp2(score - inf) is 0: a query past the last has no probabilities.
    lse = tl.load(lse_ptr + lse_offsets, mask=offs_m < S, other=float("inf"))
    delta = tl.load(delta_ptr + lse_offsets, mask=offs_m < S, other=0.0)
    dq = tl.zeros((BLOCK_M, E), dtype=tl.float32)
    for start in range(0, tl.minimum(S, tile * BLOCK_M + BLOCK_M), BLOCK_N):
        rows = (start + offs_n).to(tl.int64)[:, None] * (3 * D) + offs_e[None, :]
        inside = (offs_n < S - start)[:, None]
        k = tl.load(q_ptr + D + rows, mask=inside, other=0.0)
        v = tl.load(q_ptr + 2 * D + rows, mask=inside, other=0.0)
        p = tl.exp2(tl.dot(q, k.T) * log2_scale - lse[:, None])
        p = tl.where(start + offs_n[None, :] <= offs_m[:, None], p, 0.0)
        ds = p * (tl.dot(dout, v.T) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(dqkv_ptr + b * S * 3 * D + h * E + q_rows, dq * scale, mask=mask_m)


@triton.jit
def attention_dkdv_kernel(
    qkv_ptr, dout_ptr, lse_ptr, delta_ptr, dqkv_ptr,
    S, H, D, scale, log2_scale,
    E: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    b, h = (tl.program_id(1) // H).to(tl.int64), tl.program_id(1) % H
    offs_e = tl.arange(0, E)
    q_ptr = qkv_ptr + b * S * 3 * D + h * E
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_m = tl.arange(0, BLOCK_M)
    mask_n = offs_n[:, None] < S
    k_rows = offs_n[:, None].to(tl.int64) * (3 * D) + offs_e[None, :]
    k = tl.load(q_ptr + D + k_rows, mask=mask_n, other=0.0)
    v = tl.load(q_ptr + 2 * D + k_rows, mask=mask_n, other=0.0)
    dk = tl.zeros((BLOCK_N, E), dtype=tl.float32)
    dv = tl.zeros((BLOCK_N, E), dtype=tl.float32)
    # The first queries that see any of these keys.
    first = tl.program_id(0) * BLOCK_N // BLOCK_M * BLOCK_M
    for start in range(first, S, BLOCK_M):
        rows = (start + offs_m).to(tl.int64)
        inside = offs_m < S - start
        q_ptrs = q_ptr + rows[:, None] * (3 * D) + offs_e[None, :]
        q = tl.load(q_ptrs, mask=inside[:, None], other=0.0)
        dout_ptrs = dout_ptr + (b * S + rows[:, None]) * D + h * E + offs_e[None, :]
        dout = tl.load(dout_ptrs, mask=inside[:, None], other=0.0)
        lse_offsets = tl.program_id(1).to(tl.int64) * S + rows
        lse = tl.load(lse_ptr + lse_offsets, mask=inside, other=float("inf"))
        delta = tl.load(delta_ptr + lse_offsets, mask=inside, other=0.0)
        # Keys first: as p and ds are used transposed, they are made so.
        p = tl.exp2(tl.dot(k, q.T) * log2_scale - lse[None, :])
        p = tl.where(offs_n[:, None] <= start + offs_m[None, :], p, 0.0)
        dv = tl.dot(p.to(dout.dtype), dout, dv)
        ds = p * (tl.dot(v, dout.T) - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk)
    dk_ptrs = dqkv_ptr + b * S * 3 * D + D + h * E + k_rows
    tl.store(dk_ptrs, dk * scale, mask=mask_n)
    tl.store(dk_ptrs + D, dv, mask=mask_n)


@triton.jit
def swiglu_kernel(
    gate_up_ptr, act_ptr, dact_ptr,
    M, F,
    BACKWARD: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    """act = silu(gate) * up; BACKWARD: the gradients of gate and up take their places."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)[None, :]
    mask = (rows < M) & (cols < F)
    gate_ptrs = gate_up_ptr + rows * (2 * F) + cols
    gate = tl.load(gate_ptrs, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(gate_ptrs + F, mask=mask, other=0.0).to(tl.float32)
    s = tl.sigmoid(gate)
    if BACKWARD:
        dact = tl.load(dact_ptr + rows * F + cols, mask=mask, other=0.0).to(tl.float32)
        dgate = dact * up * s * (1 + gate * (1 - s))
        tl.store(gate_ptrs, dgate, mask=mask)
        tl.store(gate_ptrs + F, dact * gate * s, mask=mask)
    else:
        tl.store(act_ptr + rows * F + cols, gate * s * up, mask=mask)


@triton.jit
def count_kernel(targets_ptr, count_ptr, M, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    kept = tl.zeros((BLOCK,), dtype=tl.int32)
    for start in range(0, M, BLOCK):
        targets = tl.load(targets_ptr + start + offs, mask=offs < M - start, other=-100)
        kept += (targets != -100).to(tl.int32)
    tl.store(count_ptr, tl.maximum(tl.sum(kept), 1).to(tl.float32))


@triton.jit
def cross_entropy_kernel(logits_ptr, targets_ptr, losses_ptr, V, BLOCK_V: tl.constexpr):
    """Replace a row of logits by its gradient, as 12.6 does, and store its loss."""
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets_ptr + row)
    logits_ptr += row * V
    offs_v = tl.arange(0, BLOCK_V)
    if target == -100:
        for start in range(0, V, BLOCK_V):
            zeros = tl.zeros((BLOCK_V,), dtype=logits_ptr.dtype.element_ty)
            tl.store(logits_ptr + start + offs_v, zeros, mask=offs_v < V - start)
        tl.store(losses_ptr + row, 0.0)
    else:
        at_target = tl.load(logits_ptr + target).to(tl.float32)
        largest = tl.full((BLOCK_V,), float("-inf"), dtype=tl.float32)
        total = tl.zeros((BLOCK_V,), dtype=tl.float32)
        for start in range(0, V, BLOCK_V):
            mask = offs_v < V - start
            x = tl.load(logits_ptr + start + offs_v, mask=mask, other=float("-inf")).to(tl.float32)
            new = tl.maximum(largest, x)
            # A lane that has seen nothing but -inf keeps its 0.
            shift = tl.where(new == float("-inf"), 0.0, new)
            total = total * tl.exp(largest - shift) + tl.exp(x - shift)
            largest = new
        most = tl.max(largest)
        lse = most + tl.log(tl.sum(total * tl.exp(largest - most)))
        tl.store(losses_ptr + row, lse - at_target)
        for start in range(0, V, BLOCK_V):
            mask = offs_v < V - start
            x = tl.load(logits_ptr + start + offs_v, mask=mask, other=0.0).to(tl.float32)
            p = tl.exp(x - lse)
            gradient = tl.where(start + offs_v == target, p - 1, p)
            tl.store(logits_ptr + start + offs_v, gradient, mask=mask)


@triton.jit
def mean_kernel(losses_ptr, count_ptr, loss_ptr, M, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, M, BLOCK):
        total += tl.load(losses_ptr + start + offs, mask=offs < M - start, other=0.0)
    tl.store(loss_ptr, tl.sum(total) / tl.load(count_ptr))


@triton.jit
def adam_kernel(
    param_ptr, exp_avg_ptr, exp_avg_sq_ptr, grad_ptr,
    rows_, D, parts,
    stride_pr, stride_pd, stride_mr, stride_md, stride_vr, stride_vd,
    beta1, one_minus_beta1, beta2, one_minus_beta2,
    correction1, correction2, lr, decay, eps,
    PARTS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Update some rows. PARTS > 1: one row, whose gradient is the sum of this many rows at most."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    cols = (tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)).to(tl.int64)[None, :]
    mask = (rows < rows_) & (cols < D)
    if PARTS > 1:
        part = tl.arange(0, PARTS)[:, None]
        inside = (part < parts) & (cols < D)
        grad = tl.load(grad_ptr + part * D + cols, mask=inside, other=0.0)
        grad = tl.sum(grad, axis=0, keep_dims=True)
    else:
        grad = tl.load(grad_ptr + rows * D + cols, mask=mask, other=0.0).to(tl.float32)
    param_ptrs = param_ptr + rows * stride_pr + cols * stride_pd
    m_ptrs = exp_avg_ptr + rows * stride_mr + cols * stride_md
    v_ptrs = exp_avg_sq_ptr + rows * stride_vr + cols * stride_vd
    m = beta1 * tl.load(m_ptrs, mask=mask, other=0.0) + one_minus_beta1 * grad
    v = beta2 * tl.load(v_ptrs, mask=mask, other=0.0) + one_minus_beta2 * grad * grad
    param = tl.load(param_ptrs, mask=mask, other=0.0).to(tl.float32)
    update = (m / correction1) / (tl.sqrt(v / correction2) + eps)
    tl.store(param_ptrs, decay * param - lr * update, mask=mask)
    tl.store(m_ptrs, m, mask=mask)
    tl.store(v_ptrs, v, mask=mask)


def rows_of(D: int, hidden: int, R: int) -> dict[str, slice]:
    """The rows of params that each weight takes; R: how many rows there are."""
    sizes = {"norm_1": 1, "qkv": 3 * D, "out": D, "norm_2": 1, "gate_up": 2 * hidden}
    sizes["down"] = hidden
    sizes["head"] = R - sum(sizes.values())
    rows, start = {}, 0
    for name, size in sizes.items():
        rows[name] = slice(start, start + size)
        start += size
    return rows


def check(
    x: torch.Tensor,
    targets: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    params: torch.Tensor,
    exp_avg: torch.Tensor,
    exp_avg_sq: torch.Tensor,
    loss: torch.Tensor,
    heads: int,
    hidden: int,
    step: int,
) -> None:
    """Raises ValueError that names the first argument that does not fit."""
    if x.dim() != 3 or x.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(
            f"x must be (B, S, D), float16 or bfloat16, not {x.dtype} {tuple(x.shape)}"
        )
    B, S, D = x.shape
    if heads < 1 or D % heads or D // heads not in (16, 32, 64, 128):
        raise ValueError(f"heads must split {D} features into 16, 32, 64 or 128, not {heads}")
    if hidden < 1:
        raise ValueError(f"hidden must be at least 1, not {hidden}")
    if step < 1:
        raise ValueError(f"step counts from 1, not {step}")
    if targets.shape != (B, S) or targets.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"targets must be int32 or int64 {(B, S)}, not {targets.dtype} {tuple(targets.shape)}"
        )
    least = 2 + 4 * D + 3 * hidden + 1
    fits = params.dim() == 2 and params.shape[1] == D and params.shape[0] >= least
    if not fits or params.dtype != x.dtype:
        raise ValueError(
            f"params must be {x.dtype} (at least {least}, {D}), "
            f"not {params.dtype} {tuple(params.shape)}"
        )
    for name, tensor, shape in (
        ("cos", cos, (S, D // heads // 2)),
        ("sin", sin, (S, D // heads // 2)),
        ("exp_avg", exp_avg, tuple(params.shape)),
        ("exp_avg_sq", exp_avg_sq, tuple(params.shape)),
        ("loss", loss, (1,)),
    ):
        if tensor.shape != shape or tensor.dtype != torch.float32:
            raise ValueError(
                f"{name} must be float32 {shape}, not {tensor.dtype} {tuple(tensor.shape)}"
            )


def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    *,
    added: torch.Tensor | None = None,
    count: torch.Tensor | None = None,
) -> torch.Tensor:
    """c = (a @ b + added) / count; c and added are contiguous.

    Rows that b lacks for the columns of a count as 0; columns that c has more than b become -inf.
    """
    (M, K), N = a.shape, b.shape[1]
    BLOCK_M = min(128, max(16, triton.next_power_of_2(M)))
    BLOCK_N = min(256, max(16, triton.next_power_of_2(c.shape[1])))
    BLOCK_K = min(64, max(16, triton.next_power_of_2(K)))
    while triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N) <= FEW and BLOCK_N > 64:
        BLOCK_N //= 2
    matmul_kernel[(triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)](
        a, b, c, c if added is None else added, c if count is None else count,
        M, N, K, None if b.shape[0] == K else b.shape[0], None if c.shape[1] == N else c.shape[1],
        *a.stride(), *b.stride(),
        ADD=added is not None, DIVIDE=count is not None,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=16, num_warps=8, num_stages=3,
    )  # fmt: skip
    return c


def train_step(
    x: torch.Tensor,
    targets: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    params: torch.Tensor,
    exp_avg: torch.Tensor,
    exp_avg_sq: torch.Tensor,
    loss: torch.Tensor,
    heads: int,
    hidden: int,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
) -> None:
    check(x, targets, cos, sin, params, exp_avg, exp_avg_sq, loss, heads, hidden, step)
    (B, S, D), F, R = x.shape, hidden, params.shape[0]
    M, E, device = B * S, D // heads, x.device
    sections = rows_of(D, F, R)
    norm_1, qkv_weight, out_weight, norm_2, gate_up_weight, down, head = (
        params[rows] for rows in sections.values()
    )
    V = head.shape[0]

    def empty(*shape: int, dtype: torch.dtype = x.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=device)

    def contiguous(tensor: torch.Tensor) -> torch.Tensor:
        """A tensor of B * S rows, (B, S) or (B, S, D)."""
        if tensor.is_contiguous():
            return tensor.view(M, -1)
        wide = tensor if tensor.dim() == 3 else tensor[..., None]
        out = empty(M, wide.shape[2], dtype=tensor.dtype)
        BLOCK = min(1024, triton.next_power_of_2(wide.shape[2]))
        copy_rows_kernel[(M,)](wide, out, S, wide.shape[2], *wide.stride(), BLOCK=BLOCK)
        return out

    BLOCK_D = triton.next_power_of_2(D)
    wide = {"BLOCK_D": BLOCK_D, "num_warps": 4 if BLOCK_D <= 2048 else 8}
    BLOCK_M = min(triton.next_power_of_2(M), max(1, 2048 // BLOCK_D))

    def rms_norm(rows: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        normed, rstd = empty(M, D), empty(M, dtype=torch.float32)
        rms_norm_kernel[(triton.cdiv(M, BLOCK_M),)](
            rows, weight, normed, rstd, M, D, NORM_EPS, weight.stride(1), BLOCK_M=BLOCK_M, **wide
        )
        return normed, rstd

    def update(name: str, grad: torch.Tensor, parts: int = 1) -> None:
        """One step of AdamW. parts: how many rows of grad are added up for one row of params."""
        rows = sections[name]
        p, m, v = params[rows], exp_avg[rows], exp_avg_sq[rows]
        width = min(BLOCK_D, 32 if parts > 1 else 2048)
        height = 1 if parts > 1 else min(2048 // width, triton.next_power_of_2(p.shape[0]))
        adam_kernel[(triton.cdiv(p.shape[0], height), triton.cdiv(D, width))](
            p, m, v, grad,
            p.shape[0], D, parts,
            *p.stride(), *m.stride(), *v.stride(),
            beta1, 1 - beta1, beta2, 1 - beta2,
            1 - beta1**step, 1 - beta2**step, lr, 1 - lr * weight_decay, eps,
            PARTS=triton.next_power_of_2(parts), BLOCK_R=height, BLOCK_D=width, num_warps=4,
        )  # fmt: skip

    # Forward.
    x_rows, labels = contiguous(x), contiguous(targets)
    normed_1, rstd_1 = rms_norm(x_rows, norm_1)
    qkv = matmul(normed_1, qkv_weight.T, empty(M, 3 * D))

    def rope(rows: torch.Tensor, inverse: bool) -> None:
        block = min(max(1, 2048 // E), triton.next_power_of_2(M))
        rope_kernel[(triton.cdiv(M, block),)](
            rows, cos, sin, M, S, heads, D, *cos.stride(), *sin.stride(),
            INVERSE=inverse, HALF=E // 2, BLOCK_M=block, num_warps=4,
        )  # fmt: skip

    rope(qkv, inverse=False)
    mixed, lse = empty(M, D), empty(B * heads, S, dtype=torch.float32)
    scale = E**-0.5
    short = max(16, triton.next_power_of_2(S))
    BLOCK_Q, BLOCK_N = min(128, short), min(64, short)
    attention_kernel[(triton.cdiv(S, BLOCK_Q), B * heads)](
        qkv, mixed, lse, S, heads, D, scale * math.log2(math.e),
        E=E, BLOCK_M=BLOCK_Q, BLOCK_N=BLOCK_N, num_warps=8, num_stages=2,
    )  # fmt: skip
    h = matmul(mixed, out_weight.T, empty(M, D), added=x_rows)
    normed_2, rstd_2 = rms_norm(h, norm_2)
    gate_up = matmul(normed_2, gate_up_weight.T, empty(M, 2 * F))
    act = empty(M, F)

    def swiglu(
        gate_up: torch.Tensor, act: torch.Tensor, dact: torch.Tensor, backward: bool
    ) -> None:
        BLOCK_F = min(1024, triton.next_power_of_2(F))
        BLOCK = min(1024 // BLOCK_F, triton.next_power_of_2(M))
        swiglu_kernel[(triton.cdiv(M, BLOCK), triton.cdiv(F, BLOCK_F))](
            gate_up, act, dact, M, F, BACKWARD=backward, BLOCK_M=BLOCK, BLOCK_F=BLOCK_F
        )

    swiglu(gate_up, act, act, backward=False)
    y = matmul(act, down, empty(M, D), added=h)

    # The head, forward and backward, as in 12.6.
    count, losses = empty(1, dtype=torch.float32), empty(M, dtype=torch.float32)
    count_kernel[(1,)](labels, count, M, BLOCK=1024)
    chunk = triton.cdiv(M, triton.cdiv(M, CHUNK))
    # Rows of whole lines load and store 16 bytes at a time. Past V the logits are -inf, so that
    # their gradient is 0.
    width = triton.cdiv(V, 64) * 64
    logits, dhead, dy = empty(chunk, width), empty(width, D, dtype=torch.float32), empty(M, D)
    for start in range(0, M, chunk):
        end = min(M, start + chunk)
        rows, g = y[start:end], logits[: end - start]
        matmul(rows, head.T, g)
        cross_entropy_kernel[(end - start,)](
            g, labels[start:end], losses[start:end], width,
            BLOCK_V=min(4096, triton.next_power_of_2(width)), num_warps=8,
        )  # fmt: skip
        matmul(g, head, dy[start:end], count=count)
        added, divisor = dhead if start else None, count if end == M else None
        matmul(g.T, rows, dhead, added=added, count=divisor)
    mean_kernel[(1,)](losses, count, loss, M, BLOCK=1024)
    update("head", dhead)
    del logits, dhead

    # The feed-forward half. A weight is updated once its gradient has gone through it.
    dact = matmul(dy, down.T, empty(M, F))
    update("down", matmul(act.T, dy, empty(F, D)))
    swiglu(gate_up, act, dact, backward=True)
    dnormed = matmul(gate_up, gate_up_weight, empty(M, D))
    update("gate_up", matmul(gate_up.T, normed_2, empty(2 * F, D)))
    del gate_up, act, dact

    groups = min(triton.cdiv(M, BLOCK_M), MOST_GROUPS)
    partial = empty(groups, D, dtype=torch.float32)

    def rms_norm_backward(rows, weight, rstd, dx, skip):
        rms_norm_backward_kernel[(groups,)](
            dnormed, rows, weight, rstd, skip, dx, partial, M, D, weight.stride(1),
            NEED_DX=dx is not None, BLOCK_M=BLOCK_M, **wide,
        )  # fmt: skip

    dh = empty(M, D)
    rms_norm_backward(h, norm_2, rstd_2, dh, dy)
    update("norm_2", partial, groups)

    # Attention.
    dmixed = matmul(dh, out_weight, empty(M, D))
    update("out", matmul(dh.T, mixed, empty(D, D)))
    delta = empty(B * heads, S, dtype=torch.float32)
    dqkv = empty(M, 3 * D)
    BLOCK = min(64, short)
    grid, tile = (triton.cdiv(S, BLOCK), B * heads), {"E": E, "BLOCK_M": BLOCK}
    delta_kernel[grid](mixed, dmixed, delta, S, heads, D, **tile)
    for kernel in (attention_dq_kernel, attention_dkdv_kernel):
        kernel[grid](
            qkv, dmixed, lse, delta, dqkv, S, heads, D, scale, scale * math.log2(math.e),
            BLOCK_N=BLOCK, num_warps=4, num_stages=2, **tile,
        )  # fmt: skip
    rope(dqkv, inverse=True)
    matmul(dqkv, qkv_weight, dnormed)
    update("qkv", matmul(dqkv.T, normed_1, empty(3 * D, D)))
    # Nothing is before x: only the weight of its norm has a gradient.
    rms_norm_backward(x_rows, norm_1, rstd_1, None, None)
    update("norm_1", partial, groups)
