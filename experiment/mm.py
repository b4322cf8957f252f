import triton, triton.language as tl


@triton.jit
def mm(
    a_desc,
    b_desc,
    c_ptr,
    c_desc,
    M,
    N,
    K,
    AT: tl.constexpr,
    BT: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    PERSISTENT: tl.constexpr,
    WS: tl.constexpr,
    STORE: tl.constexpr,
    BATCH: tl.constexpr,
    WIDE: tl.constexpr,
    FLAT: tl.constexpr,
):
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    total = tiles_m * tiles_n * BATCH
    stop = total if PERSISTENT else tl.program_id(0) + 1
    for number in tl.range(
        tl.program_id(0), stop, tl.num_programs(0), flatten=FLAT, warp_specialize=WS and PERSISTENT
    ):
        batch = number // (tiles_m * tiles_n)
        tile = number % (tiles_m * tiles_n)
        first_m = tile // (GROUP_M * tiles_n) * GROUP_M
        rows = min(tiles_m - first_m, GROUP_M)
        place = tile % (GROUP_M * tiles_n)
        m = (first_m + place % rows) * BLOCK_M
        n = place // rows * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        if WIDE:
            tl.assume(K > 0)
        for k in tl.range(0, K, BLOCK_K, warp_specialize=WS and not PERSISTENT):
            if BATCH > 1:
                a = (
                    a_desc.load([batch, k, m]).reshape(BLOCK_K, BLOCK_M).T
                    if AT
                    else a_desc.load([batch, m, k]).reshape(BLOCK_M, BLOCK_K)
                )
                b = (
                    b_desc.load([batch, n, k]).reshape(BLOCK_N, BLOCK_K).T
                    if BT
                    else b_desc.load([batch, k, n]).reshape(BLOCK_K, BLOCK_N)
                )
            else:
                a = a_desc.load([k, m]).T if AT else a_desc.load([m, k])
                b = b_desc.load([n, k]).T if BT else b_desc.load([k, n])
            acc = tl.dot(a, b, acc)
        if STORE == 1:
            c_desc.store([m, n], acc.to(c_desc.dtype))
        elif STORE == 2:
            acc = tl.reshape(acc, (BLOCK_M, 2, BLOCK_N // 2))
            acc = tl.permute(acc, (0, 2, 1))
            c0, c1 = tl.split(acc)
            c_desc.store([m, n], c0.to(c_desc.dtype))
            c_desc.store([m, n + BLOCK_N // 2], c1.to(c_desc.dtype))
        else:
            offs_m = m.to(tl.int64) + tl.arange(0, BLOCK_M)
            offs_n = n.to(tl.int64) + tl.arange(0, BLOCK_N)
            c_ptrs = (
                c_ptr + tl.cast(batch, tl.int64) * M * N + offs_m[:, None] * N + offs_n[None, :]
            )
            tl.store(c_ptrs, acc, mask=(offs_m < M)[:, None] & (offs_n < N)[None, :])
