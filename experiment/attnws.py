import triton
import triton.language as tl


@triton.jit
def flat(
    q_desc,
    k_desc,
    v_desc,
    out_ptr,
    B,
    H,
    GROUP,
    S,
    T,
    scale,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    PERSISTENT: tl.constexpr,
    WS: tl.constexpr,
    ALL: tl.constexpr,
    MASK: tl.constexpr = 0,
):
    """T a multiple of BLOCK_N, rows of all heads in one matrix."""
    tiles = tl.cdiv(S, BLOCK_M)
    programs = tl.num_programs(0)
    places = B * H * tiles
    stop = places if PERSISTENT else tl.program_id(0) + 1
    for place in tl.range(
        tl.program_id(0), stop, programs, warp_specialize=WS and PERSISTENT and ALL
    ):
        head, tile = place // tiles, place % tiles
        if CAUSAL:
            head, tile = place % (B * H), tiles - 1 - place // (B * H)
        offs_m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
        kv = (head // GROUP) * T
        q = q_desc.load([head * S + tile * BLOCK_M, 0])
        acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
        m = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
        total = tl.zeros((BLOCK_M,), dtype=tl.float32)
        last = T
        if CAUSAL:
            last = tile * BLOCK_M + BLOCK_M
        for start in tl.range(0, last, BLOCK_N, warp_specialize=WS and not (PERSISTENT and ALL)):
            keys = k_desc.load([kv + start, 0])
            scores = tl.dot(q, keys.T)
            if CAUSAL or MASK == 1:
                seen = (start + tl.arange(0, BLOCK_N) < T)[None, :]
                if CAUSAL:
                    seen = start + tl.arange(0, BLOCK_N)[None, :] <= offs_m[:, None]
                scores = tl.where(seen, scores, float("-inf"))
            if MASK == 2:
                if start + BLOCK_N > T:
                    seen = (start + tl.arange(0, BLOCK_N) < T)[None, :]
                    scores = tl.where(seen, scores, float("-inf"))
            m_new = tl.maximum(m, tl.max(scores, axis=1) * scale)
            p = tl.exp2(scores * scale - m_new[:, None])
            correction = tl.exp2(m - m_new)
            row = tl.sum(p, axis=1)
            acc = acc * correction[:, None]
            p = p.to(q.dtype)
            values = v_desc.load([kv + start, 0])
            acc = tl.dot(p, values, acc)
            total = total * correction + row
            m = m_new
        out_rows = head.to(tl.int64) * S + offs_m
        out_ptrs = out_ptr + out_rows[:, None] * D + tl.arange(0, D)[None, :]
        tl.store(out_ptrs, acc * (1.0 / total)[:, None], mask=(offs_m < S)[:, None])
