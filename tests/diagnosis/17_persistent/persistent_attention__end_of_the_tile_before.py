# fault: if causal, the loop over keys ends where the tile of queries begins
# cause: (loop|tiles?).*diagonal
# missed: 0 / 0, as a mask or a loop leaves nothing of a row or tile: vague
import torch
import triton
import triton.language as tl


def multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def persistent_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr,
    HEADS, GROUP, S, T, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    dims = tl.arange(0, D)
    tiles = tl.cdiv(S, BLOCK_M)
    for place in range(tl.program_id(0), HEADS * tiles, tl.num_programs(0)):
        # If causal, the last queries of a head see the most keys.
        head, first = place % HEADS, (tiles - 1 - place // HEADS) * BLOCK_M
        rows = first + tl.arange(0, BLOCK_M)
        q_offsets = (head * S + rows[:, None]) * D + dims[None, :]
        q = tl.load(q_ptr + q_offsets, mask=rows[:, None] < S, other=0.0)

        largest = tl.full([BLOCK_M], float("-inf"), tl.float32)
        total = tl.zeros([BLOCK_M], tl.float32)
        acc = tl.zeros([BLOCK_M, D], tl.float32)
        end = tl.minimum(T, first) if CAUSAL else T
        for start in range(0, end, BLOCK_N):
            keys = start + tl.arange(0, BLOCK_N)
            offsets = (head // GROUP * T + keys[:, None]) * D + dims[None, :]
            k = tl.load(k_ptr + offsets, mask=keys[:, None] < T, other=0.0)
            v = tl.load(v_ptr + offsets, mask=keys[:, None] < T, other=0.0)
            seen = keys[None, :] < T
            if CAUSAL:
                seen = seen & (keys[None, :] <= rows[:, None])
            scores = tl.where(seen, tl.dot(q, tl.trans(k)) * scale, float("-inf"))
            larger = tl.maximum(largest, tl.max(scores, axis=1))
            p = tl.exp(scores - larger[:, None])
            shrink = tl.exp(largest - larger)
            total = total * shrink + tl.sum(p, axis=1)
            acc = acc * shrink[:, None] + tl.dot(p.to(v.dtype), v)
            largest = larger
        tl.store(out_ptr + q_offsets, acc / total[:, None], mask=rows[:, None] < S)


def persistent_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    B, H, S, D = q.shape
    Hkv, T = k.shape[1:3]
    if scale is None:
        scale = D**-0.5
    out = torch.empty_like(q)
    BLOCK_M, BLOCK_N = 128, 64
    programs = min(triton.cdiv(S, BLOCK_M) * B * H, multiprocessors(q.device))
    persistent_attention_kernel[(programs,)](
        q, k, v, out, B * H, H // Hkv, S, T, scale,
        D=D, CAUSAL=causal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=8,
    )  # fmt: skip
    return out
