"""12.7  One training step of a transformer block

Forward, backward and optimizer of a whole block with a head, by your own kernels alone.

    h = x + attention(rope(rms_norm(x, norm_1) @ qkv.T)) @ out.T      D = heads * E; B S rows
    y = h + (silu(gate) * up) @ down                                  causal, scale E ** -0.5
    gate, up = halves of rms_norm(h, norm_2) @ gate_up.T              rms norm's eps is 1e-6
    loss = mean cross entropy of y @ head.T over the targets that are not -100
    PyTorch: loss.backward(), then a step of torch.optim.AdamW (06.6) on params

Given     x (B, S, D): float16 or bfloat16; targets (B, S): int32 or int64, each -100 or in [0, V);
          cos, sin (S, E/2), exp_avg, exp_avg_sq (R, D), loss (1,): float32; params (R, D), dtype of
          x: the weights, in the rows that rows_of gives (qkv: q, k, v, each head by head; gate_up:
          gate first; down: transposed); E in 16, 32, 64, 128; step from 1; all contiguous
Return    None: params, exp_avg, exp_avg_sq and loss are changed in place. Values between kernels,
          gradients too, may be rounded to the dtype of x
New here  all of it, in order; the backward pass of rms norm; when a weight may be changed
Traffic   params, exp_avg, exp_avg_sq and loss stored once; scores may lie in memory
Speed     at least 0.4x PyTorch's speed at B 4, S 2048, 16 heads of 128, F 5632, V 32768, bfloat16

Run       pytest puzzles/12_transformer/test_train_step.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides of x, targets, cos, sin, params, exp_avg and exp_avg_sq
Memory    nothing as large as the scores, B heads S S: come back from chapter 16
Values    no target that counts; NaN and infinity as in PyTorch; any loss before the call. What
          overflows between kernels is free
Raise     ValueError that names the argument: check does that
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/12_transformer/production/test_train_step.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

# Given: the rows of params, the checks of production, and one product for all purposes, whose
# tiles are 64 by 64. The kernels in between are yours; copy what you need from earlier puzzles.


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
def rms_norm_backward_kernel(
    dy_ptr, x_ptr, weight_ptr, rstd_ptr, dx_ptr, partial_ptr,
    M, D,
    BLOCK_D: tl.constexpr,
):  # fmt: skip
    # TODO: with x_hat = x * rstd and dx_hat = dy * weight,
    #     dx = (dx_hat - x_hat * mean(dx_hat * x_hat)) * rstd, and dweight = sum of dy * x_hat over
    #     rows, of which each program stores its part (05.4)
    # BLOCK_D is triton.next_power_of_2(D). The other kernels, and what they take, are up to you.
    pass


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
    # TODO: check(...), then the forward pass (-k 'shapes and forward' tests it alone), the gradient
    # (-k 'shapes and gradient'), and AdamW (-k 'shapes and step')
    raise NotImplementedError
