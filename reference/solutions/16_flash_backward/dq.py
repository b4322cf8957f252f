"""16.2  The gradient of q: one good answer.

Only tiles that the diagonal or the end cuts have a mask, and the others have a loop of their own.
Tiles are 64 x 64, which leaves room for two programs or more on a multiprocessor, and if causal the
longest begin. Where strides and alignment allow it, the tensor memory accelerator loads the tiles.
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
    dq, q, dout, lse, delta, k, v,
    b, h, offs_m, first, last, scale,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr,
    BLOCK_N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Take in the keys from first to last. MASKED: the diagonal cuts these tiles, or the end."""
    offs_n = tl.arange(0, BLOCK_N)
    for start in range(first, last, BLOCK_N):
        keys = rows(k, b, h, start, last, BLOCK_N, D)
        values = rows(v, b, h, start, last, BLOCK_N, D)
        p = tl.exp2(tl.dot(q, keys.T) * scale - lse[:, None])  # [BLOCK_M, BLOCK_N]
        if MASKED:
            seen = offs_n[None, :] < last - start
            if CAUSAL:
                seen = seen & (start + offs_n[None, :] <= offs_m[:, None])
            p = tl.where(seen, p, 0.0)
        ds = p * (tl.dot(dout, values.T) - delta[:, None])
        dq = tl.dot(ds.to(keys.dtype), keys, dq)
    return dq


@triton.jit
def attention_dq_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dq_ptr,
    q_descriptor, k_descriptor, v_descriptor, dout_descriptor,
    q_strides, k_strides, v_strides, dout_strides, lse_strides, delta_strides,
    H, GROUP, S, T, scale, log2_scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # Neighbouring programs share a head, so that its keys and values stay in the L2 cache.
    tiles = tl.cdiv(S, BLOCK_M)
    head = tl.program_id(0) // tiles
    # If causal, the last queries see the most keys: begin with them, end with the short programs.
    tile = tiles - 1 - tl.program_id(0) % tiles
    b, h = head // H, head % H
    q = q_ptr, q_descriptor, q_strides
    k = k_ptr, k_descriptor, k_strides
    v = v_ptr, v_descriptor, v_strides
    dout = dout_ptr, dout_descriptor, dout_strides
    q_tile = rows(q, b, h, tile * BLOCK_M, S, BLOCK_M, D)
    dout_tile = rows(dout, b, h, tile * BLOCK_M, S, BLOCK_M, D)
    offs_m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    if D == 128 and dout_descriptor is not None:
        # A select keeps dout in registers: its products then read half as much shared memory, whose
        # bandwidth limits them, and there is room for a third stage.
        dout_tile = tl.where((offs_m < S)[:, None], dout_tile, 0.0)
    # exp2(score - inf) is 0: a query past the last has no probabilities.
    lse = numbers(lse_ptr, lse_strides, b, h, offs_m, S, float("inf")) * 1.4426950408889634
    delta = numbers(delta_ptr, delta_strides, b, h, offs_m, S, 0.0)
    whole, last = T // BLOCK_N * BLOCK_N, T
    if CAUSAL:
        whole = tl.minimum(whole, tile * BLOCK_M // BLOCK_N * BLOCK_N)
        last = tl.minimum(T, tile * BLOCK_M + BLOCK_M)
    dq = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    dq = walk(
        dq, q_tile, dout_tile, lse, delta, k, v,
        b, h // GROUP, offs_m, 0, whole, log2_scale, CAUSAL, False, BLOCK_N, D,
    )  # fmt: skip
    dq = walk(
        dq, q_tile, dout_tile, lse, delta, k, v,
        b, h // GROUP, offs_m, whole, last, log2_scale, CAUSAL, True, BLOCK_N, D,
    )  # fmt: skip

    dq_rows = head.to(tl.int64) * S + offs_m
    dq_ptrs = dq_ptr + dq_rows[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(dq_ptrs, dq * scale, mask=(offs_m < S)[:, None])


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


def shared_memory(device: torch.device) -> int:
    """How many bytes of shared memory a program can have; an H100's in the interpreter."""
    if device.type != "cuda":
        return 232448
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


def tma_can(x: torch.Tensor) -> bool:
    """TMA wants a last stride of 1, and the address and the other strides multiples of 16 bytes.

    One row for all queries (stride 0, by expand) goes by pointers.
    """
    if x.is_cuda and torch.cuda.get_device_capability(x.device)[0] < 9:
        return False  # it came with Hopper
    aligned = all(stride * x.element_size() % 16 == 0 for stride in x.stride()[:-1])
    return x.stride(-1) == 1 and x.stride(-2) > 0 and aligned and x.data_ptr() % 16 == 0


def attention_dq(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dout: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    check(q, k, v, dout, lse, delta)
    B, H, S, D = q.shape
    T = k.shape[2]
    scale = D**-0.5 if scale is None else scale

    dq = torch.empty(B, H, S, D, dtype=q.dtype, device=q.device)
    # Tiles that leave room for two programs, or more, on a multiprocessor.
    BLOCK_M = min(64, max(16, triton.next_power_of_2(S)))
    BLOCK_N = min(64, max(16, triton.next_power_of_2(T)))
    descriptors = [
        TensorDescriptor.from_tensor(x, [1, 1, block, D]) if tma_can(x) else None
        for x, block in ((q, BLOCK_M), (k, BLOCK_N), (v, BLOCK_N), (dout, BLOCK_M))
    ]
    # Two programs of three stages with D 128 take all shared memory of an H100.
    fits = all(descriptors) and shared_memory(q.device) >= 232448
    num_stages = 3 if D < 128 or fits else 2
    # log2(e) turns exp into exp2, which is what the hardware has.
    attention_dq_kernel[(triton.cdiv(S, BLOCK_M) * B * H,)](
        q, k, v, dout, lse, delta, dq, *descriptors,
        q.stride(), k.stride(), v.stride(), dout.stride(), lse.stride(), delta.stride(),
        H, H // k.shape[1], S, T, scale, scale * math.log2(math.e),
        D=D, CAUSAL=causal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
        num_warps=4, num_stages=num_stages,
    )  # fmt: skip
    return dq
