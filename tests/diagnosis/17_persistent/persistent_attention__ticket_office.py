# fault: the counter that deals the tiles is made once and never set back to 0
# cause: right in its first call, wrong in a later one
# never: must loop over tiles
from __future__ import annotations

import torch
import triton
import triton.language as tl

_tickets: dict[torch.device, torch.Tensor] = {}


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def persistent_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, ticket_ptr,
    B, H, GROUP, S, T,
    scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(S, BLOCK_M)
    heads = B * H
    d = tl.arange(0, D)
    factor = scale * 1.4426950408889634
    ticket = tl.atomic_add(ticket_ptr, 1)
    while ticket < tiles * heads:
        # The last tiles of all heads, which see the most keys, come first.
        head = (ticket % heads).to(tl.int64)  # b * H + h
        group = head // H * (H // GROUP) + head % H // GROUP
        first = (tiles - 1 - ticket // heads) * BLOCK_M
        rows = first + tl.arange(0, BLOCK_M)
        offs = (head * S + rows[:, None]) * D + d[None, :]
        q = tl.load(q_ptr + offs, mask=rows[:, None] < S, other=0.0)
        m = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
        total = tl.zeros((BLOCK_M,), dtype=tl.float32)
        acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
        end = T
        if CAUSAL:
            end = tl.minimum(first + BLOCK_M, T)
        for start in range(0, end, BLOCK_N):
            keys = start + tl.arange(0, BLOCK_N)
            kv = (group * T + keys[:, None]) * D + d[None, :]
            k = tl.load(k_ptr + kv, mask=keys[:, None] < T, other=0.0)
            s = tl.dot(q, tl.trans(k)) * factor
            seen = keys[None, :] < T
            if CAUSAL:
                seen = seen & (keys[None, :] <= rows[:, None])
            s = tl.where(seen, s, float("-inf"))
            new = tl.maximum(m, tl.max(s, axis=1))
            correction = tl.exp2(m - new)
            p = tl.exp2(s - new[:, None])
            total = total * correction + tl.sum(p, axis=1)
            v = tl.load(v_ptr + kv, mask=keys[:, None] < T, other=0.0)
            acc = tl.dot(p.to(v.dtype), v, acc * correction[:, None])
            m = new
        tl.store(out_ptr + offs, acc / total[:, None], mask=rows[:, None] < S)
        ticket = tl.atomic_add(ticket_ptr, 1)


def persistent_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    (B, H, S, D), (_, Hkv, T, _) = q.shape, k.shape
    if scale is None:
        scale = D**-0.5
    out = torch.empty_like(q)
    if q.device not in _tickets:
        _tickets[q.device] = torch.zeros(1, dtype=torch.int32, device=q.device)
    BLOCK_M, BLOCK_N = 64, 64
    programs = min(multiprocessors(q.device), triton.cdiv(S, BLOCK_M) * B * H)
    persistent_attention_kernel[(programs,)](
        q, k, v, out, _tickets[q.device], B, H, H // Hkv, S, T, float(scale),
        D=D, CAUSAL=causal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
    )  # fmt: skip
    return out
