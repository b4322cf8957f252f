"""16.3  The gradients of k and v: one good answer.

Scores are made with keys along the rows, because that is how both products need them, and neither p
nor ds has to be transposed. A program walks through all query heads that share its keys, so that dk
and dv are added up in registers, without atomics. A query past the last has an lse of inf, and so
probabilities of 0 without a mask.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def rows(source, b, h, first, last, ROWS: tl.constexpr, D: tl.constexpr):
    """[ROWS, D] of head h from row first on; what is past the last row is 0."""
    ptr, descriptor, strides = source
    if descriptor is None:
        offs_r = first.to(tl.int64) + tl.arange(0, ROWS)
        offs_d = tl.arange(0, D).to(tl.int64)
        ptrs = ptr + b.to(tl.int64) * strides[0] + h.to(tl.int64) * strides[1]
        ptrs += offs_r[:, None] * strides[2] + offs_d[None, :] * strides[3]
        tile = tl.load(ptrs, mask=(offs_r < last)[:, None], other=0.0)
    else:
        tile = descriptor.load([b, h, first, 0]).reshape(ROWS, D)
    return tile


@triton.jit
def numbers(x, strides, b, h, offs, last, other):
    """One number a query: x[b, h, offs], or `other` past the last."""
    ptrs = x + b.to(tl.int64) * strides[0] + h.to(tl.int64) * strides[1]
    return tl.load(ptrs + offs.to(tl.int64) * strides[2], mask=offs < last, other=other)


@triton.jit
def walk(
    dk, dv, k, v, q, dout, lse_ptr, delta_ptr,
    lse_strides, delta_strides,
    b, h, offs_n, first, last, S, scale,
    MASKED: tl.constexpr, BLOCK_M: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Take in the queries of one head from first to last. MASKED: the diagonal cuts the tiles."""
    for start in range(first, last, BLOCK_M):
        offs_m = start + tl.arange(0, BLOCK_M)
        q_tile = rows(q, b, h, start, S, BLOCK_M, D)
        # exp2(score - inf) is 0: a query past the last has no probabilities.
        lse = numbers(lse_ptr, lse_strides, b, h, offs_m, S, float("inf")) * 1.4426950408889634
        # Keys first: as p and ds are used transposed, they are made so.
        p = tl.exp2(tl.dot(k, q_tile.T) * scale - lse[None, :])  # [BLOCK_N, BLOCK_M]
        if MASKED:
            p = tl.where(offs_n[:, None] <= offs_m[None, :], p, 0.0)
        dout_tile = rows(dout, b, h, start, S, BLOCK_M, D)
        dv = tl.dot(p.to(dout_tile.dtype), dout_tile, dv)
        delta = numbers(delta_ptr, delta_strides, b, h, offs_m, S, 0.0)
        ds = p * (tl.dot(v, dout_tile.T) - delta[None, :])
        dk = tl.dot(ds.to(q_tile.dtype), q_tile, dk)
    return dk, dv


@triton.jit
def attention_dkdv_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr,
    q_descriptor, k_descriptor, v_descriptor, dout_descriptor,
    q_strides, k_strides, v_strides, dout_strides, lse_strides, delta_strides,
    H, GROUP, S, T, scale, log2_scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # Neighbouring programs share a head, so that its queries stay in the L2 cache. If causal, the
    # first keys are seen by the most queries: they begin, and the short programs end.
    tiles = tl.cdiv(T, BLOCK_N)
    tile, head = tl.program_id(0) % tiles, tl.program_id(0) // tiles
    b, h = head // (H // GROUP), head % (H // GROUP)
    q = q_ptr, q_descriptor, q_strides
    k = k_ptr, k_descriptor, k_strides
    v = v_ptr, v_descriptor, v_strides
    dout = dout_ptr, dout_descriptor, dout_strides
    k_tile = rows(k, b, h, tile * BLOCK_N, T, BLOCK_N, D)
    v_tile = rows(v, b, h, tile * BLOCK_N, T, BLOCK_N, D)
    offs_n = tile * BLOCK_N + tl.arange(0, BLOCK_N)
    diagonal, below = 0, 0
    if CAUSAL:
        diagonal = tile * BLOCK_N // BLOCK_M * BLOCK_M
        below = tl.minimum(tl.cdiv(tile * BLOCK_N + BLOCK_N, BLOCK_M) * BLOCK_M, S)
    dk = tl.zeros((BLOCK_N, D), dtype=tl.float32)
    dv = tl.zeros((BLOCK_N, D), dtype=tl.float32)
    for member in range(GROUP):
        query_head = h * GROUP + member
        if CAUSAL:
            dk, dv = walk(
                dk, dv, k_tile, v_tile, q, dout, lse_ptr, delta_ptr,
                lse_strides, delta_strides,
                b, query_head, offs_n, diagonal, below, S, log2_scale, True, BLOCK_M, D,
            )  # fmt: skip
        dk, dv = walk(
            dk, dv, k_tile, v_tile, q, dout, lse_ptr, delta_ptr,
            lse_strides, delta_strides,
            b, query_head, offs_n, below, S, S, log2_scale, False, BLOCK_M, D,
        )  # fmt: skip

    mask_n = (offs_n < T)[:, None]
    kv_rows = head.to(tl.int64) * T + offs_n
    offsets = kv_rows[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(dk_ptr + offsets, dk * scale, mask=mask_n)
    tl.store(dv_ptr + offsets, dv, mask=mask_n)


def check(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dout: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
) -> None:
    """Raises ValueError that names the first argument that does not fit."""
    if q.dim() != 4 or q.shape[3] not in (16, 32, 64, 128):
        raise ValueError(f"q must be (B, H, S, D) with D 16, 32, 64 or 128, not {tuple(q.shape)}")
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"q must be float16 or bfloat16, not {q.dtype}")
    B, H, _, D = q.shape
    if k.dim() != 4 or k.shape[::3] != (B, D) or H % k.shape[1] or k.dtype != q.dtype:
        raise ValueError(
            f"k must be {q.dtype} ({B}, a divisor of {H}, T, {D}), not {k.dtype} {tuple(k.shape)}"
        )
    fits = {
        "v": (v, k.shape, k.dtype),
        "dout": (dout, q.shape, q.dtype),
        "lse": (lse, q.shape[:3], torch.float32),
        "delta": (delta, q.shape[:3], torch.float32),
    }
    for name, (x, shape, dtype) in fits.items():
        if x.shape != shape or x.dtype != dtype:
            raise ValueError(
                f"{name} must be {dtype} {tuple(shape)}, not {x.dtype} {tuple(x.shape)}"
            )


def tma_can(x: torch.Tensor) -> bool:
    """TMA wants a last stride of 1, and the address and the other strides multiples of 16 bytes.

    One row for all queries (stride 0, by expand) goes by pointers.
    """
    if x.is_cuda and torch.cuda.get_device_capability(x.device)[0] < 9:
        return False  # it came with Hopper
    aligned = all(stride * x.element_size() % 16 == 0 for stride in x.stride()[:-1])
    return x.stride(-1) == 1 and x.stride(-2) > 0 and aligned and x.data_ptr() % 16 == 0


def attention_dkdv(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dout: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    check(q, k, v, dout, lse, delta)
    B, H, S, D = q.shape
    T = k.shape[2]
    scale = D**-0.5 if scale is None else scale

    dk = torch.empty(k.shape, dtype=k.dtype, device=k.device)
    dv = torch.empty(v.shape, dtype=v.dtype, device=v.device)
    # Tiles that leave room for two programs, or more, on a multiprocessor. Narrow heads leave
    # registers for more queries at a time, where no pointers take them.
    BLOCK_M = min(128 if D == 64 and tma_can(q) else 64, max(16, triton.next_power_of_2(S)))
    BLOCK_N = min(64, max(16, triton.next_power_of_2(T)))
    descriptors = [
        TensorDescriptor.from_tensor(x, [1, 1, block, D]) if tma_can(x) else None
        for x, block in ((q, BLOCK_M), (k, BLOCK_N), (v, BLOCK_N), (dout, BLOCK_M))
    ]
    # log2(e) turns exp into exp2, which is what the hardware has.
    attention_dkdv_kernel[(triton.cdiv(T, BLOCK_N) * B * k.shape[1],)](
        q, k, v, dout, lse, delta, dk, dv, *descriptors,
        q.stride(), k.stride(), v.stride(), dout.stride(), lse.stride(), delta.stride(),
        H, H // k.shape[1], S, T, scale, scale * math.log2(math.e),
        D=D, CAUSAL=causal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
        num_warps=4, num_stages=2 if D >= 64 else 3,
    )  # fmt: skip
    return dk, dv
