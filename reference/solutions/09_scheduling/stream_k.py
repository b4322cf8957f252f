"""09.2  Stream-K matmul: one good answer.

Only the tiles that do not fill a round are cut, and not if they nearly do. Whole rounds go tile by
tile, side by side along K, so that programs find each other's tiles in the L2 cache; the steps of
the remaining tiles are numbered through and shared out evenly, and a second kernel adds the parts.
Large products load by descriptors, as in 07.5, and rows that begin at no multiple of 16 bytes are
copied first.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# Of the elements of a tile that one program adds up.
CHUNK = 1024
# Multiplications from which on descriptors, and a copy of rows that are not aligned, gain time.
LARGE = 2**26


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def realign_kernel(
    x_ptr, y_ptr,
    M, N,
    stride_xm, stride_ym,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    pid, tiles_n = tl.program_id(0).to(tl.int64), tl.cdiv(N, BLOCK_N)
    rows = (pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    cols = (pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    x = tl.load(x_ptr + rows * stride_xm + cols, mask=(rows < M) & (cols < N), other=0.0)
    # The padding is stored, too: up to the end of a whole line lanes can store 16 bytes.
    tl.store(y_ptr + rows * stride_ym + cols, x, mask=(rows < M) & (cols < stride_ym))


@triton.jit
def place_of(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Row and column of a tile, in groups of GROUP_M rows."""
    first_m = tile // (GROUP_M * tiles_n) * GROUP_M
    rows = min(tiles_m - first_m, GROUP_M)
    place = tile % (GROUP_M * tiles_n)
    return first_m + place % rows, place // rows


@triton.jit
def stream_k_matmul_kernel(
    a_ptr, b_ptr, a_descriptor, b_descriptor, c_ptr, parts_ptr,
    M, N, K,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, CUT: tl.constexpr,
):  # fmt: skip
    pid, programs = tl.program_id(0), tl.num_programs(0)
    tiles_m, tiles_n, steps = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), tl.cdiv(K, BLOCK_K)
    # As many rounds of whole tiles as all programs can have: they walk along K side by side, and
    # find each other's tiles of a and b in the L2 cache. The steps of the remaining tiles, fewer
    # than there are programs, are numbered through and shared out.
    rounds = tiles_m * tiles_n // programs
    shared = (tiles_m * tiles_n - rounds * programs).to(tl.int64) * steps
    begin, end = pid * shared // programs, (pid + 1) * shared // programs
    # At most two segments are of shared tiles: the end of one and the beginning of the next.
    crossed = ((end + steps - 1) // steps - begin // steps).to(tl.int32)
    segments = rounds + tl.where(begin < end, crossed, 0)
    if not CUT:  # the last round is left as it is
        segments = tl.cdiv(tiles_m * tiles_n - pid, programs)
    a_step = tl.cast(stride_ak, tl.int64) * BLOCK_K
    b_step = tl.cast(stride_bk, tl.int64) * BLOCK_K
    for segment in range(segments):
        is_shared = segment >= (rounds if CUT else segments)
        shared_tile = rounds * programs + (begin // steps).to(tl.int32) + segment - rounds
        tile = tl.where(is_shared, shared_tile, segment * programs + pid)
        begin_of_tile = (tile - rounds * programs).to(tl.int64) * steps
        first = tl.where(is_shared, tl.maximum(begin - begin_of_tile, 0), 0)
        last = tl.where(is_shared, tl.minimum(end - begin_of_tile, steps), steps)

        pid_m, pid_n = place_of(tile, tiles_m, tiles_n, GROUP_M)
        offs_m = pid_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = pid_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
        offs_k = first * BLOCK_K + tl.arange(0, BLOCK_K)
        mask_m, mask_n = offs_m < M, offs_n < N
        a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
        b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        left = K - first * BLOCK_K
        count = (last - first).to(tl.int32)
        # As in chapter 07: with a path that skips the loop, Triton 3.6 waits for each wgmma.
        tl.assume(count > 0)
        for step in range(count):
            if a_descriptor is None:
                mask_k = tl.arange(0, BLOCK_K) < left
                a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
                b = tl.load(b_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
            else:
                k = (first.to(tl.int32) + step) * BLOCK_K
                a = a_descriptor.load([pid_m * BLOCK_M, k])
                b = b_descriptor.load([k, pid_n * BLOCK_N])
            acc = tl.dot(a, b, acc)
            a_ptrs += a_step
            b_ptrs += b_step
            left -= BLOCK_K
        if count == steps:
            c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
            tl.store(c_ptrs, acc, mask=mask_m[:, None] & mask_n[None, :])
        else:
            # Two slots for each program, one for each of its shared tiles.
            slot = tl.cast(2 * pid + segment - rounds, tl.int64)
            rows, columns = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
            part_ptrs = parts_ptr + slot * BLOCK_M * BLOCK_N
            part_ptrs += rows[:, None] * BLOCK_N + columns[None, :]
            tl.store(part_ptrs, acc)


# Where K is 1, and therefore a constant, Triton 3.6 ends with "PassManager::run failed".
@triton.jit(do_not_specialize=["K"])
def add_parts_kernel(
    parts_ptr, c_ptr,
    M, N, K, programs,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, TOGETHER: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    SIZE: tl.constexpr = BLOCK_M * BLOCK_N
    tiles_m, tiles_n, steps = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), tl.cdiv(K, BLOCK_K)
    first_tile = tiles_m * tiles_n // programs * programs
    shared = (tiles_m * tiles_n - first_tile).to(tl.int64) * steps
    tile = tl.program_id(0) // (SIZE // CHUNK)
    offs = tl.program_id(0) % (SIZE // CHUNK) * CHUNK + tl.arange(0, CHUNK)

    # Number i belongs to the last program whose share begins at or before it.
    begin = tile.to(tl.int64) * steps
    first = ((begin + 1) * programs - 1) // shared
    last = ((begin + steps) * programs - 1) // shared
    if first < last:
        acc = tl.zeros((CHUNK,), dtype=tl.float32)
        # Several parts at a time, whose loads are then in flight together.
        for number in range(first, last + 1, TOGETHER):
            owners = number + tl.arange(0, TOGETHER)
            begins, ends = owners * shared // programs, (owners + 1) * shared // programs
            # The first owner may come from the tile before, with that in its first slot.
            slots = 2 * owners + (begins < begin)
            part_ptrs = parts_ptr + slots[:, None] * SIZE + offs[None, :]
            # Where there are fewer steps than programs, some of them own nothing.
            mask = (owners <= last) & (begins < ends)
            acc += tl.sum(tl.load(part_ptrs, mask=mask[:, None], other=0.0), axis=0)
        pid_m, pid_n = place_of(first_tile + tile, tiles_m, tiles_n, GROUP_M)
        rows = pid_m.to(tl.int64) * BLOCK_M + offs // BLOCK_N
        columns = pid_n.to(tl.int64) * BLOCK_N + offs % BLOCK_N
        tl.store(c_ptr + rows * N + columns, acc, mask=(rows < M) & (columns < N))


def shared_memory(device: torch.device) -> int:
    """How many bytes of shared memory a program can have; an H100's in the interpreter."""
    if device.type != "cuda":
        return 227 * 1024
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


def has_tma(device: torch.device) -> bool:
    """Whether there is a tensor memory accelerator, and shared memory for four stages of tiles."""
    if device.type == "cuda" and torch.cuda.get_device_properties(device).major < 9:
        return False
    return shared_memory(device) >= 200 * 1024


def has_rows(x: torch.Tensor) -> bool:
    """Whether the rows of x are contiguous, and none lies on another."""
    return x.stride(1) == 1 and x.stride(0) >= x.shape[1]


def realigned(x: torch.Tensor) -> torch.Tensor:
    """x, or a copy of it if its rows begin at no multiples of 16 bytes.

    Those of the copy begin at lines of the cache, of 128 bytes.
    """
    if x.data_ptr() % 16 == 0 and x.stride(0) * x.element_size() % 16 == 0:
        return x
    M, N = x.shape
    y = torch.empty(M, triton.cdiv(N, 64) * 64, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 4) * triton.cdiv(N, 1024),)
    realign_kernel[grid](x, y, M, N, x.stride(0), y.stride(0), BLOCK_M=4, BLOCK_N=1024, num_warps=8)
    return y[:, :N]


def stream_k_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dim() != 2 or a.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"a must be 2-D and float16, bfloat16 or float32, not {a.dtype} {tuple(a.shape)}"
        )
    M, K = a.shape
    if b.dim() != 2 or b.shape[0] != K or b.dtype != a.dtype:
        raise ValueError(f"b must be {a.dtype} ({K}, N), not {b.dtype} {tuple(b.shape)}")
    N = b.shape[1]
    if 0 in (M, N, K):
        return torch.zeros(M, N, dtype=a.dtype, device=a.device)
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    # Short sums of small products: parts of large tiles would be most of the traffic.
    small = max(M, N) <= 1024 and K < 8192
    BLOCK_M, BLOCK_N, num_warps = (64, 64, 4) if small else (128, 256, 8)
    BLOCK_K = 128 // a.element_size()  # 128 bytes: a whole line of the cache
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    programs = min(multiprocessors(a.device), tiles * triton.cdiv(K, BLOCK_K))
    shared_tiles = tiles % programs
    # Of large tiles, the parts of more than that cost more than they save.
    cut = M * N * K < LARGE or shared_tiles * 4 <= programs * 3
    if not cut:
        shared_tiles = 0
    parts = c
    if shared_tiles:
        parts = torch.empty(2 * programs, BLOCK_M * BLOCK_N, dtype=torch.float32, device=a.device)
    descriptors = None, None
    if (
        has_tma(a.device)
        and a.element_size() == 2
        and M * N * K >= LARGE
        and has_rows(a)
        and has_rows(b)
    ):
        descriptors = (
            TensorDescriptor.from_tensor(realigned(a), [BLOCK_M, BLOCK_K]),
            TensorDescriptor.from_tensor(realigned(b), [BLOCK_K, BLOCK_N]),
        )
    stream_k_matmul_kernel[(programs,)](
        a, b, *descriptors, c, parts, M, N, K, *a.stride(), *b.stride(),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=8, CUT=cut,
        num_warps=num_warps, num_stages=3 if descriptors[0] is None else 4,
    )  # fmt: skip
    if shared_tiles:
        add_parts_kernel[(shared_tiles * BLOCK_M * BLOCK_N // CHUNK,)](
            parts, c, M, N, K, programs,
            BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K,
            GROUP_M=8, TOGETHER=8, CHUNK=CHUNK,
        )  # fmt: skip
    return c
