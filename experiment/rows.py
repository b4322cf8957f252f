import triton
import triton.language as tl


@triton.jit
def realign(x_ptr, y_ptr, M, N, stride, pitch, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    tiles_n = tl.cdiv(N, BLOCK_N)
    rows = (pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    cols = (pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    mask = (rows < M) & (cols < N)
    x = tl.load(x_ptr + rows * stride + cols, mask=mask)
    tl.store(y_ptr + rows * pitch + cols, x, mask=mask)


@triton.jit
def realign_all(x_ptr, y_ptr, M, N, stride, pitch, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Whole tiles without a mask over the columns; stores may fill the pitch."""
    pid = tl.program_id(0).to(tl.int64)
    tiles_n = tl.cdiv(pitch, BLOCK_N)
    rows = (pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    start = pid % tiles_n * BLOCK_N
    cols = (start + tl.arange(0, BLOCK_N))[None, :]
    if start + BLOCK_N <= N:
        x = tl.load(x_ptr + rows * stride + cols, mask=rows < M)
        tl.store(y_ptr + rows * pitch + cols, x, mask=rows < M)
    else:
        x = tl.load(x_ptr + rows * stride + cols, mask=(rows < M) & (cols < N), other=0.0)
        tl.store(y_ptr + rows * pitch + cols, x, mask=(rows < M) & (cols < pitch))


@triton.jit
def rms(
    x_ptr,
    w_ptr,
    y_ptr,
    M,
    N,
    eps,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    EVICT: tl.constexpr,
):
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.arange(0, BLOCK_N).to(tl.int64)[None, :]
    mask = (rows < M) & (cols < N)
    x = tl.load(x_ptr + rows * N + cols, mask=mask, other=0.0, eviction_policy=EVICT).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=1, keep_dims=True) / N + eps)
    w = tl.load(w_ptr + cols, mask=cols < N, other=0.0, eviction_policy="evict_last").to(tl.float32)
    tl.store(y_ptr + rows * N + cols, x * rstd * w, mask=mask)


@triton.jit
def rms_twice(x_ptr, w_ptr, y_ptr, M, N, eps, BLOCK: tl.constexpr):
    """Two walks over the row; the second finds it in the cache."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * N
    y_ptr += row * N
    offs = tl.arange(0, BLOCK)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        x = tl.load(
            x_ptr + start + offs, mask=start + offs < N, other=0.0, eviction_policy="evict_last"
        ).to(tl.float32)
        squares += x * x
    rstd = tl.rsqrt(tl.sum(squares) / N + eps)
    for start in range(0, N, BLOCK):
        mask = start + offs < N
        x = tl.load(x_ptr + start + offs, mask=mask, other=0.0, eviction_policy="evict_first").to(
            tl.float32
        )
        w = tl.load(w_ptr + start + offs, mask=mask, other=0.0, eviction_policy="evict_last").to(
            tl.float32
        )
        tl.store(y_ptr + start + offs, x * rstd * w, mask=mask)


@triton.jit
def row_sum(x_ptr, y_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, EVICT: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    lanes = tl.arange(0, BLOCK_N)
    x_ptrs = x_ptr + rows[:, None] * N
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, N, BLOCK_N):
        cols = (start + lanes).to(tl.int64)[None, :]
        x = tl.load(
            x_ptrs + cols, mask=(rows[:, None] < M) & (cols < N), other=0.0, eviction_policy=EVICT
        )
        acc += x.to(tl.float32)
    tl.store(y_ptr + rows, tl.sum(acc, axis=1), mask=rows < M)


@triton.jit
def layer_norm_middle(
    x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, N, eps, BLOCK_N: tl.constexpr, VEC: tl.constexpr
):
    """One row a program: its aligned middle, VEC elements in a load, and up to VEC - 1 at both ends."""
    row = tl.program_id(0).to(tl.int64)
    begin = row * N
    first = tl.cdiv(begin, VEC) * VEC  # where the row's first whole vector begins
    count = (begin + N - first) // VEC * VEC
    offs = tl.arange(0, BLOCK_N)
    inside = offs < count
    few = tl.arange(0, VEC)
    head, tail = begin + few, first + count + few
    in_head, in_tail = head < first, tail < begin + N
    x = tl.load(x_ptr + first + offs, mask=inside, other=0.0).to(tl.float32)
    x_head = tl.load(x_ptr + head, mask=in_head, other=0.0).to(tl.float32)
    x_tail = tl.load(x_ptr + tail, mask=in_tail, other=0.0).to(tl.float32)
    mean = (tl.sum(x) + tl.sum(x_head) + tl.sum(x_tail)) / N
    x = tl.where(inside, x - mean, 0.0)
    x_head = tl.where(in_head, x_head - mean, 0.0)
    x_tail = tl.where(in_tail, x_tail - mean, 0.0)
    squares = tl.sum(x * x) + tl.sum(x_head * x_head) + tl.sum(x_tail * x_tail)
    rstd = tl.rsqrt(squares / N + eps)
    at = (first - begin).to(tl.int32)
    w = tl.load(w_ptr + at + offs, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + at + offs, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + first + offs, x * rstd * w + b, mask=inside)
    w = tl.load(w_ptr + few, mask=in_head, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + few, mask=in_head, other=0.0).to(tl.float32)
    tl.store(y_ptr + head, x_head * rstd * w + b, mask=in_head)
    w = tl.load(w_ptr + at + count + few, mask=in_tail, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + at + count + few, mask=in_tail, other=0.0).to(tl.float32)
    tl.store(y_ptr + tail, x_tail * rstd * w + b, mask=in_tail)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def swish_branch(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    offs = start + tl.arange(0, BLOCK)
    if start + BLOCK <= N:
        x = tl.load(x_ptr + offs).to(tl.float32)
        tl.store(y_ptr + offs, x * tl.sigmoid(x))
    else:
        x = tl.load(x_ptr + offs, mask=offs < N).to(tl.float32)
        tl.store(y_ptr + offs, x * tl.sigmoid(x), mask=offs < N)


@triton.jit
def scale_branch(x_ptr, y_ptr, N, factor, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    offs = start + tl.arange(0, BLOCK)
    if start + BLOCK <= N:
        x = tl.load(x_ptr + offs).to(tl.float32)
        tl.store(y_ptr + offs, x * factor)
    else:
        x = tl.load(x_ptr + offs, mask=offs < N).to(tl.float32)
        tl.store(y_ptr + offs, x * factor, mask=offs < N)


@triton.jit
def fp8(
    x_desc,
    w_desc,
    xs_ptr,
    ws_ptr,
    out_ptr,
    M,
    N,
    K,
    stride_xs,
    stride_ws,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    GROUP_M: tl.constexpr,
    WS: tl.constexpr,
):
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP_M * tiles_n) * GROUP_M
    rows = min(tiles_m - first_m, GROUP_M)
    place = pid % (GROUP_M * tiles_n)
    m, n = (first_m + place % rows) * BLOCK_M, place // rows * BLOCK_N
    offs_m, offs_n = m.to(tl.int64) + tl.arange(0, BLOCK_M), n.to(tl.int64) + tl.arange(0, BLOCK_N)
    xs_ptrs = xs_ptr + offs_m * stride_xs
    ws_ptr += n // 128 * stride_ws
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, K, 128, warp_specialize=WS):
        x = x_desc.load([m, k])
        w = w_desc.load([n, k])
        xs = tl.load(xs_ptrs + k // 128, mask=offs_m < M, other=0.0)
        ws = tl.load(ws_ptr + k // 128)
        acc += tl.dot(x, w.T) * (xs * ws)[:, None]
    out_ptrs = out_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(out_ptrs, acc, mask=(offs_m < M)[:, None] & (offs_n < N)[None, :])
