# Liger's chunks; dweight is added up in float32 by a kernel of its own. Sizes: int32, no checks.

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn,
    ADD: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
        b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] < K), other=0.0)
        b = tl.load(b_ptrs, mask=(offs_k[:, None] < K) & (offs_n[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
    c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    if ADD:
        acc += tl.load(c_ptrs, mask=mask, other=0.0)
    tl.store(c_ptrs, acc, mask=mask)


@triton.jit
def cross_entropy_kernel(
    logits_ptr, targets_ptr, losses_ptr,
    V,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    target = tl.load(targets_ptr + row)
    cols = tl.arange(0, BLOCK_V)
    ptrs = logits_ptr + row * V + cols
    x = tl.load(ptrs, mask=cols < V, other=-float("inf")).to(tl.float32)
    m = tl.max(x)
    lse = m + tl.log(tl.sum(tl.exp(x - m)))
    loss = lse - tl.sum(tl.where(cols == target, x, 0.0))
    grad = tl.exp(x - lse) - (cols == target).to(tl.float32)
    if target == -100:
        loss = 0.0
        grad = grad * 0
    tl.store(losses_ptr + row, loss)
    tl.store(ptrs, grad, mask=cols < V)


@triton.jit
def loss_kernel(losses_ptr, targets_ptr, loss_ptr, count_ptr, M, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    losses = tl.load(losses_ptr + offs, mask=offs < M, other=0.0)
    targets = tl.load(targets_ptr + offs, mask=offs < M, other=-100)
    count = tl.maximum(tl.sum((targets != -100).to(tl.float32)), 1.0)
    tl.store(loss_ptr, tl.sum(losses) / count)
    tl.store(count_ptr, count)


@triton.jit
def divide_kernel(in_ptr, out_ptr, count_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(in_ptr + offs, mask=offs < N)
    tl.store(out_ptr + offs, x / tl.load(count_ptr), mask=offs < N)


def matmul(a, b, c, add=False):
    (M, K), N = a.shape, b.shape[1]
    matmul_kernel[(triton.cdiv(M, 128), triton.cdiv(N, 128))](
        a, b, c, M, N, K, *a.stride(), *b.stride(),
        ADD=add, BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, num_warps=8,
    )  # fmt: skip


def fused_linear_cross_entropy(x, weight, targets):
    (M, D), V = x.shape, weight.shape[0]
    chunk = triton.next_power_of_2(triton.cdiv(M, triton.cdiv(V, D)))
    loss = torch.empty((), dtype=torch.float32, device=x.device)
    dx = torch.empty_like(x)
    dweight = torch.empty_like(weight)
    count = torch.empty(1, dtype=torch.float32, device=x.device)
    losses = torch.empty(M, dtype=torch.float32, device=x.device)
    total = torch.empty(weight.shape, dtype=torch.float32, device=x.device)
    logits = torch.empty((chunk, V), dtype=x.dtype, device=x.device)
    part = torch.empty((chunk, D), dtype=torch.float32, device=x.device)
    loss_of = targets.shape[0]
    for start in range(0, M, chunk):
        end = min(start + chunk, M)
        g = logits[: end - start]
        matmul(x[start:end], weight.T, g)
        cross_entropy_kernel[(end - start,)](
            g, targets[start:end], losses[start:end], V,
            BLOCK_V=triton.next_power_of_2(V), num_warps=16,
        )  # fmt: skip
        matmul(g.T, x[start:end], total, add=start > 0)
        if start == 0:
            loss_kernel[(1,)](
                losses, targets, loss, count, loss_of, BLOCK=triton.next_power_of_2(M)
            )
        matmul(g, weight, part)
        size = (end - start) * D
        divide_kernel[(triton.cdiv(size, 1024),)](part, dx[start:end], count, size, BLOCK=1024)
    loss_kernel[(1,)](losses, targets, loss, count, M, BLOCK=triton.next_power_of_2(M))
    divide_kernel[(triton.cdiv(V * D, 1024),)](total, dweight, count, V * D, BLOCK=1024)
    return loss, dx, dweight
