import triton
import triton.language as tl


@triton.jit
def step(
    acc,
    m,
    total,
    q,
    k_desc,
    v_desc,
    b,
    h,
    start,
    last,
    scale,
    offs_m,
    MASKED: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_N: tl.constexpr,
    D: tl.constexpr,
):
    offs_n = tl.arange(0, BLOCK_N)
    keys = k_desc.load([b, h, start, 0]).reshape(BLOCK_N, D)
    scores = tl.dot(q, keys.T)
    if MASKED:
        seen = (offs_n < last - start)[None, :]
        if CAUSAL:
            seen = seen & (start + offs_n[None, :] <= offs_m[:, None])
        scores = tl.where(seen, scores, float("-inf"))
    m_new = tl.maximum(m, tl.max(scores, axis=1) * scale)
    p = tl.exp2(scores * scale - m_new[:, None])
    correction = tl.exp2(m - m_new)
    total = total * correction + tl.sum(p, axis=1)
    values = v_desc.load([b, h, start, 0]).reshape(BLOCK_N, D)
    acc = tl.dot(p.to(values.dtype), values, acc * correction[:, None])
    return acc, m_new, total


@triton.jit
def attend(
    acc,
    m,
    total,
    q,
    k_desc,
    v_desc,
    b,
    h,
    first,
    last,
    scale,
    offs_m,
    MASKED: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_N: tl.constexpr,
    D: tl.constexpr,
    WS: tl.constexpr,
):
    for start in tl.range(first, last, BLOCK_N, warp_specialize=WS):
        acc, m, total = step(
            acc,
            m,
            total,
            q,
            k_desc,
            v_desc,
            b,
            h,
            start,
            last,
            scale,
            offs_m,
            MASKED,
            CAUSAL,
            BLOCK_N,
            D,
        )
    return acc, m, total


@triton.jit
def ahead(
    acc,
    m,
    total,
    q,
    k_desc,
    v_desc,
    b,
    h,
    first,
    last,
    scale,
    BLOCK_N: tl.constexpr,
    D: tl.constexpr,
):
    """Scores of the next tile are computed beside the softmax of this one. last > first."""
    scores = tl.dot(q, k_desc.load([b, h, first, 0]).reshape(BLOCK_N, D).T)
    for start in tl.range(first, last - BLOCK_N, BLOCK_N):
        keys = k_desc.load([b, h, start + BLOCK_N, 0]).reshape(BLOCK_N, D)
        coming = tl.dot(q, keys.T)
        m_new = tl.maximum(m, tl.max(scores, axis=1) * scale)
        p = tl.exp2(scores * scale - m_new[:, None])
        correction = tl.exp2(m - m_new)
        total = total * correction + tl.sum(p, axis=1)
        m = m_new
        values = v_desc.load([b, h, start, 0]).reshape(BLOCK_N, D)
        acc = tl.dot(p.to(values.dtype), values, acc * correction[:, None])
        scores = coming
    m_new = tl.maximum(m, tl.max(scores, axis=1) * scale)
    p = tl.exp2(scores * scale - m_new[:, None])
    correction = tl.exp2(m - m_new)
    total = total * correction + tl.sum(p, axis=1)
    values = v_desc.load([b, h, last - BLOCK_N, 0]).reshape(BLOCK_N, D)
    acc = tl.dot(p.to(values.dtype), values, acc * correction[:, None])
    return acc, m_new, total


@triton.jit
def attention(
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
    AHEAD: tl.constexpr,
    LONGEST_FIRST: tl.constexpr,
):
    tiles = tl.cdiv(S, BLOCK_M)
    programs = tl.num_programs(0)
    turns = tl.cdiv(B * H * tiles, programs) if PERSISTENT else 1
    for turn in range(turns):
        forth = turn * programs + tl.program_id(0)
        back = (turn + 1) * programs - 1 - tl.program_id(0)
        place = tl.where(turn % 2 == 0, forth, back)
        if place < B * H * tiles:
            if LONGEST_FIRST:
                head, tile = place % (B * H), tiles - 1 - place // (B * H)
            else:
                head, tile = place // tiles, place % tiles
            b, h = head // H, head % H
            offs_m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
            q = q_desc.load([b, h, tile * BLOCK_M, 0]).reshape(BLOCK_M, D)
            acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
            m = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
            total = tl.zeros((BLOCK_M,), dtype=tl.float32)
            whole, last = T // BLOCK_N * BLOCK_N, T
            if CAUSAL:
                whole = tl.minimum(whole, tile * BLOCK_M // BLOCK_N * BLOCK_N)
                last = tl.minimum(T, tile * BLOCK_M + BLOCK_M)
            if AHEAD:
                if whole > 0:
                    acc, m, total = ahead(
                        acc, m, total, q, k_desc, v_desc, b, h // GROUP, 0, whole, scale, BLOCK_N, D
                    )
            else:
                acc, m, total = attend(
                    acc,
                    m,
                    total,
                    q,
                    k_desc,
                    v_desc,
                    b,
                    h // GROUP,
                    0,
                    whole,
                    scale,
                    offs_m,
                    False,
                    CAUSAL,
                    BLOCK_N,
                    D,
                    WS,
                )
            acc, m, total = attend(
                acc,
                m,
                total,
                q,
                k_desc,
                v_desc,
                b,
                h // GROUP,
                whole,
                last,
                scale,
                offs_m,
                True,
                CAUSAL,
                BLOCK_N,
                D,
                False,
            )
            out_rows = head.to(tl.int64) * S + offs_m
            out_ptrs = out_ptr + out_rows[:, None] * D + tl.arange(0, D)[None, :]
            tl.store(out_ptrs, acc * (1.0 / total)[:, None], mask=(offs_m < S)[:, None])
