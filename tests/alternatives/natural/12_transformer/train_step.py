# Scores lie in memory, as chapter 12 allows: a product, a masked softmax, a product, and back. One
# program a row for everything but the products, for which the stub's kernel is used.

import torch
import triton
import triton.language as tl


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


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K, H,
    stride_ab, stride_ah, stride_am, stride_ak,
    stride_bb, stride_bh, stride_bk, stride_bn,
    stride_cb, stride_ch, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """c = a @ b for each of B * H pairs of matrices."""
    tiles_n = tl.cdiv(N, BLOCK_N)
    b, h = tl.program_id(1) // H, tl.program_id(1) % H
    offs_m = tl.program_id(0) // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    offs_n = tl.program_id(0) % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    a_ptrs = a_ptr + b * stride_ab + h * stride_ah + offs_m * stride_am
    b_ptrs = b_ptr + b * stride_bb + h * stride_bh + offs_n * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        mask_a = (offs_m < M) & (offs_k < K)[None, :]
        mask_b = (offs_k < K)[:, None] & (offs_n < N)
        a_tile = tl.load(a_ptrs + offs_k[None, :] * stride_ak, mask=mask_a, other=0.0)
        b_tile = tl.load(b_ptrs + offs_k[:, None] * stride_bk, mask=mask_b, other=0.0)
        acc = tl.dot(a_tile, b_tile, acc)
    c_ptrs = c_ptr + b * stride_cb + h * stride_ch + offs_m * stride_cm + offs_n * stride_cn
    tl.store(c_ptrs, acc, mask=(offs_m < M) & (offs_n < N))


def matmul(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """c = a @ b: matrices, or (B, H) of them; any strides."""
    a4, b4, c4 = (tensor if tensor.dim() == 4 else tensor[None, None] for tensor in (a, b, c))
    (B, H, M, K), N = a4.shape, b4.shape[3]
    matmul_kernel[(triton.cdiv(M, 64) * triton.cdiv(N, 64), B * H)](
        a4, b4, c4, M, N, K, H, *a4.stride(), *b4.stride(), *c4.stride(),
        BLOCK_M=64, BLOCK_N=64, BLOCK_K=32,
    )  # fmt: skip
    return c


@triton.jit
def rms_norm_kernel(x_ptr, weight_ptr, y_ptr, rstd_ptr, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * D + cols, mask=cols < D, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=cols < D, other=0.0)
    rstd = 1 / tl.sqrt(tl.sum(x * x) / D + 1e-6)
    tl.store(rstd_ptr + row, rstd)
    tl.store(y_ptr + row * D + cols, x * rstd * weight, mask=cols < D)


@triton.jit
def rms_norm_backward_kernel(
    dy_ptr, x_ptr, weight_ptr, rstd_ptr, dx_ptr, partial_ptr,
    M, D,
    BLOCK_D: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK_D)
    mask = cols < D
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    dweight = tl.zeros((BLOCK_D,), dtype=tl.float32)
    for row in range(tl.program_id(0), M, tl.num_programs(0)):
        dy = tl.load(dy_ptr + row * D + cols, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * D + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        x_hat = x * rstd
        dx_hat = dy * weight
        dx = (dx_hat - x_hat * (tl.sum(dx_hat * x_hat) / D)) * rstd
        tl.store(dx_ptr + row * D + cols, dx, mask=mask)
        dweight += dy * x_hat
    tl.store(partial_ptr + tl.program_id(0) * D + cols, dweight, mask=mask)


@triton.jit
def sum_rows_kernel(partial_ptr, out_ptr, parts, D, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(parts):
        total += tl.load(partial_ptr + part * D + cols, mask=cols < D, other=0.0)
    tl.store(out_ptr + cols, total, mask=cols < D)


@triton.jit
def add_kernel(a_ptr, b_ptr, out_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + offs, mask=offs < N)
    b = tl.load(b_ptr + offs, mask=offs < N)
    tl.store(out_ptr + offs, a + b, mask=offs < N)


@triton.jit
def rope_kernel(
    qkv_ptr, cos_ptr, sin_ptr,
    S, H, D,
    SIGN: tl.constexpr, HALF: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    cols = tl.arange(0, HALF)[None, :]
    cos = tl.load(cos_ptr + row % S * HALF + cols)
    sin = SIGN * tl.load(sin_ptr + row % S * HALF + cols)
    # q and k are the first 2 H heads of a row.
    head = tl.arange(0, BLOCK_H)[:, None]
    mask = (head < 2 * H) & (cols < HALF)
    ptrs = qkv_ptr + row * 3 * D + head * 2 * HALF + cols
    left = tl.load(ptrs, mask=mask).to(tl.float32)
    right = tl.load(ptrs + HALF, mask=mask).to(tl.float32)
    tl.store(ptrs, left * cos - right * sin, mask=mask)
    tl.store(ptrs + HALF, right * cos + left * sin, mask=mask)


@triton.jit
def causal_softmax_kernel(scores_ptr, S, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    ptrs = scores_ptr + row.to(tl.int64) * S + cols
    x = tl.load(ptrs, mask=cols < S, other=0.0).to(tl.float32) * scale
    x = tl.where(cols <= row % S, x, -float("inf"))
    p = tl.exp(x - tl.max(x))
    tl.store(ptrs, p / tl.sum(p), mask=cols < S)


@triton.jit
def softmax_backward_kernel(p_ptr, dp_ptr, S, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    p = tl.load(p_ptr + row * S + cols, mask=cols < S, other=0.0).to(tl.float32)
    dp = tl.load(dp_ptr + row * S + cols, mask=cols < S, other=0.0).to(tl.float32)
    ds = p * (dp - tl.sum(p * dp)) * scale
    tl.store(dp_ptr + row * S + cols, ds, mask=cols < S)


@triton.jit
def swiglu_kernel(gate_up_ptr, act_ptr, F, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(gate_up_ptr + row * 2 * F + cols, mask=cols < F).to(tl.float32)
    up = tl.load(gate_up_ptr + row * 2 * F + F + cols, mask=cols < F)
    tl.store(act_ptr + row * F + cols, gate * tl.sigmoid(gate) * up, mask=cols < F)


@triton.jit
def swiglu_backward_kernel(gate_up_ptr, dact_ptr, F, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gate_ptrs = gate_up_ptr + row * 2 * F + cols
    gate = tl.load(gate_ptrs, mask=cols < F).to(tl.float32)
    up = tl.load(gate_ptrs + F, mask=cols < F).to(tl.float32)
    dact = tl.load(dact_ptr + row * F + cols, mask=cols < F).to(tl.float32)
    sigmoid = tl.sigmoid(gate)
    silu = gate * sigmoid
    tl.store(gate_ptrs, dact * up * (sigmoid + silu * (1 - sigmoid)), mask=cols < F)
    tl.store(gate_ptrs + F, dact * silu, mask=cols < F)


@triton.jit
def cross_entropy_kernel(logits_ptr, targets_ptr, losses_ptr, V, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    target = tl.load(targets_ptr + row)
    ptrs = logits_ptr + row * V + cols
    x = tl.load(ptrs, mask=cols < V, other=-float("inf")).to(tl.float32)
    p = tl.exp(x - tl.max(x))
    total = tl.sum(p)
    g = p / total - (cols == target).to(tl.float32)
    loss = tl.log(total) + tl.max(x) - tl.sum(tl.where(cols == target, x, 0.0))
    tl.store(losses_ptr + row, tl.where(target == -100, 0.0, loss))
    tl.store(ptrs, tl.where(target == -100, 0.0, g), mask=cols < V)


@triton.jit
def loss_kernel(losses_ptr, targets_ptr, loss_ptr, count_ptr, M, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    losses = tl.load(losses_ptr + offs, mask=offs < M, other=0.0)
    targets = tl.load(targets_ptr + offs, mask=offs < M, other=-100)
    count = tl.maximum(tl.sum((targets != -100).to(tl.float32)), 1.0)
    tl.store(loss_ptr, tl.sum(losses) / count)
    tl.store(count_ptr, count)


@triton.jit
def divide_kernel(x_ptr, count_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N)
    tl.store(x_ptr + offs, x / tl.load(count_ptr), mask=offs < N)


@triton.jit
def adam_kernel(
    param_ptr, m_ptr, v_ptr, grad_ptr,
    N,
    beta1, one_minus_beta1, beta2, one_minus_beta2, correction1, correction2, lr, decay, eps,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    param = tl.load(param_ptr + offs, mask=mask).to(tl.float32)
    grad = tl.load(grad_ptr + offs, mask=mask).to(tl.float32)
    m = beta1 * tl.load(m_ptr + offs, mask=mask) + one_minus_beta1 * grad
    v = beta2 * tl.load(v_ptr + offs, mask=mask) + one_minus_beta2 * grad * grad
    param = param * decay - lr * (m / correction1) / (tl.sqrt(v / correction2) + eps)
    tl.store(param_ptr + offs, param, mask=mask)
    tl.store(m_ptr + offs, m, mask=mask)
    tl.store(v_ptr + offs, v, mask=mask)


def train_step(
    x, targets, cos, sin, params, exp_avg, exp_avg_sq, loss,
    heads, hidden, step, lr, beta1, beta2, eps, weight_decay,
):  # fmt: skip
    B, S, D = x.shape
    M, E, F = B * S, D // heads, hidden
    sections = rows_of(D, hidden, params.shape[0])
    w = {name: params[rows] for name, rows in sections.items()}
    V = w["head"].shape[0]
    grads = torch.empty(params.shape, dtype=params.dtype, device=x.device)
    g = {name: grads[rows] for name, rows in sections.items()}

    def new(*shape, dtype=x.dtype):
        return torch.empty(shape, dtype=dtype, device=x.device)

    x = x.view(M, D)
    BLOCK_D = triton.next_power_of_2(D)
    grid_f = (M, triton.cdiv(F, 1024))

    def norm(x, weight):
        y, rstd = new(M, D), new(M, dtype=torch.float32)
        rms_norm_kernel[(M,)](x, weight, y, rstd, D, BLOCK=BLOCK_D)
        return y, rstd

    def norm_backward(dy, x, name, rstd):
        dx, parts = new(M, D), min(M, 128)
        partial = new(parts, D, dtype=torch.float32)
        rms_norm_backward_kernel[(parts,)](dy, x, w[name], rstd, dx, partial, M, D, BLOCK_D=BLOCK_D)
        sum_rows_kernel[(triton.cdiv(D, 64),)](partial, g[name], parts, D, BLOCK=64)
        return dx

    def add(a, b):
        out = new(M, D)
        add_kernel[(triton.cdiv(M * D, 1024),)](a, b, out, M * D, BLOCK=1024)
        return out

    def rope(qkv, sign):
        BLOCK_H = triton.next_power_of_2(2 * heads)
        rope_kernel[(M,)](qkv, cos, sin, S, heads, D, SIGN=sign, HALF=E // 2, BLOCK_H=BLOCK_H)

    def split(qkv):
        return qkv.view(B, S, 3, heads, E).permute(2, 0, 3, 1, 4).unbind(0)

    def merge(rows):
        return rows.view(B, S, heads, E).transpose(1, 2)

    n1, rstd1 = norm(x, w["norm_1"])
    qkv = matmul(n1, w["qkv"].T, new(M, 3 * D))
    rope(qkv, 1.0)
    q, k, v = split(qkv)
    p = matmul(q, k.transpose(2, 3), new(B, heads, S, S))
    BLOCK_S = triton.next_power_of_2(S)
    causal_softmax_kernel[(B * heads * S,)](p, S, E**-0.5, BLOCK=BLOCK_S)
    mixed = new(M, D)
    matmul(p, v, merge(mixed))
    h = add(x, matmul(mixed, w["out"].T, new(M, D)))
    n2, rstd2 = norm(h, w["norm_2"])
    gate_up = matmul(n2, w["gate_up"].T, new(M, 2 * F))
    act = new(M, F)
    swiglu_kernel[grid_f](gate_up, act, F, BLOCK=1024)
    y = add(h, matmul(act, w["down"], new(M, D)))
    logits = matmul(y, w["head"].T, new(M, V))
    losses, count = new(M, dtype=torch.float32), new(1, dtype=torch.float32)
    cross_entropy_kernel[(M,)](
        logits, targets, losses, V, BLOCK=triton.next_power_of_2(V), num_warps=8
    )
    loss_kernel[(1,)](losses, targets, loss, count, M, BLOCK=triton.next_power_of_2(M))

    dy = matmul(logits, w["head"], new(M, D, dtype=torch.float32))
    divide_kernel[(triton.cdiv(M * D, 1024),)](dy, count, M * D, BLOCK=1024)
    dhead = matmul(logits.T, y, new(V, D, dtype=torch.float32))
    divide_kernel[(triton.cdiv(V * D, 1024),)](dhead, count, V * D, BLOCK=1024)
    narrow = new(M, D)
    zero = torch.zeros(M, D, dtype=x.dtype, device=x.device)
    add_kernel[(triton.cdiv(M * D, 1024),)](dy, zero, narrow, M * D, BLOCK=1024)
    dy = narrow
    dact = matmul(dy, w["down"].T, new(M, F))
    matmul(act.T, dy, g["down"])
    swiglu_backward_kernel[grid_f](gate_up, dact, F, BLOCK=1024)
    dn2 = matmul(gate_up, w["gate_up"], new(M, D))
    matmul(gate_up.T, n2, g["gate_up"])
    dh = add(dy, norm_backward(dn2, h, "norm_2", rstd2))
    dmixed = matmul(dh, w["out"], new(M, D))
    matmul(dh.T, mixed, g["out"])
    dqkv = new(M, 3 * D)
    dq, dk, dv = split(dqkv)
    dp = matmul(merge(dmixed), v.transpose(2, 3), new(B, heads, S, S))
    matmul(p.transpose(2, 3), merge(dmixed), dv)
    softmax_backward_kernel[(B * heads * S,)](p, dp, S, E**-0.5, BLOCK=BLOCK_S)
    matmul(dp, k, dq)
    matmul(dp.transpose(2, 3), q, dk)
    rope(dqkv, -1.0)
    dn1 = matmul(dqkv, w["qkv"], new(M, D))
    matmul(dqkv.T, n1, g["qkv"])
    norm_backward(dn1, x, "norm_1", rstd1)

    for name, rows in sections.items():
        grad = dhead if name == "head" else g[name]
        size = grad.numel()
        adam_kernel[(triton.cdiv(size, 1024),)](
            params[rows], exp_avg[rows], exp_avg_sq[rows], grad, size,
            beta1, 1 - beta1, beta2, 1 - beta2, 1 - beta1**step, 1 - beta2**step,
            lr, 1 - lr * weight_decay, eps, BLOCK=1024,
        )  # fmt: skip
