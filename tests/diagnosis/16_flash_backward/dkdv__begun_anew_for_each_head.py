# fault: dk and dv are begun anew for each head of the group
# cause: only the last query head|last query head of its group
import torch
import triton
import triton.language as tl


@triton.jit
def attention_dkdv_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr,
    GROUP, S, T, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    first, kv_head = tl.program_id(0) * BLOCK_N, tl.program_id(1)
    keys = first + tl.arange(0, BLOCK_N)
    dims = tl.arange(0, D)
    tile = (kv_head * T + keys[:, None]) * D + dims[None, :]
    k = tl.load(k_ptr + tile, mask=keys[:, None] < T, other=0.0)
    v = tl.load(v_ptr + tile, mask=keys[:, None] < T, other=0.0)

    begin = first // BLOCK_M * BLOCK_M if CAUSAL else 0
    for head in range(kv_head * GROUP, kv_head * GROUP + GROUP):
        dk = tl.zeros([BLOCK_N, D], tl.float32)
        dv = tl.zeros([BLOCK_N, D], tl.float32)
        for start in range(begin, S, BLOCK_M):
            rows = start + tl.arange(0, BLOCK_M)
            inside = rows < S
            offsets = (head * S + rows[:, None]) * D + dims[None, :]
            q = tl.load(q_ptr + offsets, mask=inside[:, None], other=0.0)
            dout = tl.load(dout_ptr + offsets, mask=inside[:, None], other=0.0)
            lse = tl.load(lse_ptr + head * S + rows, mask=inside, other=0.0)
            delta = tl.load(delta_ptr + head * S + rows, mask=inside, other=0.0)
            seen = inside[:, None] & (keys[None, :] < T)
            if CAUSAL:
                seen = seen & (keys[None, :] <= rows[:, None])
            scores = tl.dot(q, tl.trans(k)) * scale
            p = tl.where(seen, tl.exp(scores - lse[:, None]), 0.0)
            dv += tl.dot(tl.trans(p.to(dout.dtype)), dout)
            ds = p * (tl.dot(dout, tl.trans(v)) - delta[:, None])
            dk += tl.dot(tl.trans(ds.to(q.dtype)), q)
    tl.store(dk_ptr + tile, dk * scale, mask=keys[:, None] < T)
    tl.store(dv_ptr + tile, dv, mask=keys[:, None] < T)


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
    B, H, S, D = q.shape
    Hkv, T = k.shape[1:3]
    if scale is None:
        scale = D**-0.5
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    BLOCK_M, BLOCK_N = 64, 64
    attention_dkdv_kernel[(triton.cdiv(T, BLOCK_N), B * Hkv)](
        q, k, v, dout, lse, delta, dk, dv, H // Hkv, S, T, scale,
        D=D, CAUSAL=causal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
    )  # fmt: skip
    return dk, dv
