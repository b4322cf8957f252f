"""18.4  All-gather and matmul in one launch: one good answer.

Few programs copy the peers' rows, a chunk each with four pieces on their way; the others multiply
their rank's own rows first, then each chunk when its flag says that it is there. Where each rank
has a GPU of its own, the programs that copy meet inside the launch, and the others need not wait.
Weights and own rows come by descriptors, as in chapter 17, and large matrices whose rows are not
aligned are padded first.
"""

import contextlib
import functools

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


def on(x: torch.Tensor) -> contextlib.AbstractContextManager:
    """In the body, kernels are launched on the GPU that x lies on."""
    return torch.cuda.device(x.device) if x.is_cuda else contextlib.nullcontext()


def meet(tensors: list[torch.Tensor]) -> None:
    """What is launched after this on any of their GPUs waits for all launched before on each."""
    streams = [torch.cuda.current_stream(d) for d in {x.device for x in tensors if x.is_cuda}]
    events = [stream.record_event() for stream in streams]
    for stream in streams:
        for event in events:
            stream.wait_event(event)


# Programs that copy: so few keep the link between two GPUs busy while the others multiply. With 16,
# the last tiles would be a wave of their own: 512 tiles are 3.9 for each of 132 multiprocessors.
PROGRAMS = 8


@functools.cache
def signals_of(devices: tuple[torch.device, ...], streams: tuple[int, ...]) -> list[torch.Tensor]:
    """Signals for `meet_inside` on each device, all 0 whenever no kernel runs."""
    signals = [torch.zeros(PROGRAMS, 2, len(devices), dtype=torch.int32, device=d) for d in devices]
    meet(signals)
    return signals


def signals_for(tensors: list[torch.Tensor]) -> list[torch.Tensor] | None:
    """Signals by which the ranks meet in a launch; None where they share a GPU, or are alone."""
    devices = tuple(x.device for x in tensors)
    if len(set(devices)) < max(2, len(devices)):
        return None
    # Calls on other streams may overlap, and need signals of their own.
    return signals_of(devices, tuple(torch.cuda.current_stream(d).cuda_stream for d in devices))


@triton.jit
def meet_inside(peers, own_ptr, rank, BEGINNING: tl.constexpr):
    """Wait for the programs of this number at the other ranks, and see what they have stored.

    peers: the signals of the other ranks, from the next one on; own_ptr: this rank's
    """
    R: tl.constexpr = len(peers) + 1
    place = (tl.program_id(0) * 2 + BEGINNING) * R
    # One thread signals: not before all have loaded and stored.
    tl.debug_barrier()
    for peer in tl.static_range(R - 1):
        tl.atomic_add(peers[peer] + place + rank, 1, sem="release", scope="sys")
    for peer in tl.static_range(R - 1):
        signal_ptr = own_ptr + place + (rank + 1 + peer) % R
        while tl.atomic_cas(signal_ptr, 1, 0, sem="acquire", scope="sys") != 1:
            pass


@triton.jit
def pad_kernel(
    x_ptr, y_ptr,
    M, N,
    stride_xm, stride_xn,
    rows, cols,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    pid, tiles_n = tl.program_id(0).to(tl.int64), tl.cdiv(cols, BLOCK_N)
    m = (pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    n = (pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    x = tl.load(x_ptr + m * stride_xm + n * stride_xn, mask=(m < M) & (n < N), other=0.0)
    tl.store(y_ptr + m * cols + n, x, mask=(m < rows) & (n < cols))


@triton.jit
def fetch(
    shards,
    gathered_ptr,
    flags_ptr,
    M,
    K,
    COPIERS,
    PARTS,
    BLOCK_M: tl.constexpr,
    PIECE: tl.constexpr,
):
    chunks, pieces = tl.cdiv(M, BLOCK_M), tl.cdiv(BLOCK_M * K, PIECE)
    size = tl.cast(M, tl.int64) * K
    for peer in tl.static_range(1, len(shards)):
        for number in range(tl.program_id(0), chunks * PARTS, COPIERS):
            chunk = number // PARTS
            # Four pieces are on their way to shared memory at a time.
            for piece in tl.range(number % PARTS, pieces, PARTS, num_stages=4):
                inside = piece * PIECE + tl.arange(0, PIECE)  # [PIECE]
                offs = chunk.to(tl.int64) * BLOCK_M * K + inside
                mask = (inside < BLOCK_M * K) & (offs < size)
                rows = tl.load(shards[peer] + offs, mask=mask)
                tl.store(gathered_ptr + (peer - 1) * size + offs, rows, mask=mask)
            # The flag is raised by one thread: not before all have stored.
            tl.debug_barrier()
            tl.atomic_add(flags_ptr + (peer - 1) * chunks + chunk, 1, sem="release")


@triton.jit(do_not_specialize=["rank"])
def all_gather_matmul_kernel(
    shards, gathered_ptr, flags_ptr, weight_ptr, out_ptr, peers, own_signals_ptr,
    shard_descriptor, weight_descriptor,
    M, N, K,
    stride_wk, stride_wn,
    rank,
    COPIERS, PARTS,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, PIECE: tl.constexpr,
):  # fmt: skip
    R: tl.constexpr = len(shards)
    if tl.program_id(0) < COPIERS:
        if peers is not None:
            meet_inside(peers, own_signals_ptr, rank, BEGINNING=True)
        fetch(shards, gathered_ptr, flags_ptr, M, K, COPIERS, PARTS, BLOCK_M, PIECE)
        if peers is not None:
            meet_inside(peers, own_signals_ptr, rank, BEGINNING=False)
        return

    # Chunks of BLOCK_M rows in the order in which they are there: the own ones, then each peer's.
    # GROUP_M of a rank's make a group, of which tiles are taken column by column.
    chunks, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    pid = tl.program_id(0) - COPIERS
    peer, tile = pid // (chunks * tiles_n), pid % (chunks * tiles_n)
    first = tile // (GROUP_M * tiles_n) * GROUP_M
    height = min(chunks - first, GROUP_M)
    place = tile % (GROUP_M * tiles_n)
    chunk, column = first + place % height, place // height * BLOCK_N

    offs_m = chunk.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = column.to(tl.int64) + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)
    mask_m, mask_n = offs_m < M, offs_n < N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # Otherwise there is a path that skips the loop, on which no wgmma sets acc, and Triton 3.6
    # therefore waits for each wgmma before it starts the next (sm_90; 3.7 and 3.9 do not).
    tl.assume(K > 0)
    is_own = peer == 0
    # Not for fetched rows: the tensor memory accelerator need not see what programs of the same
    # launch have stored.
    if is_own and shard_descriptor is not None:
        for k in range(0, K, BLOCK_K):
            a = shard_descriptor.load([chunk * BLOCK_M, k])
            acc = tl.dot(a, weight_descriptor.load([k, column]), acc)
    else:
        a_ptr = shards[0]
        if not is_own:
            flag_ptr = flags_ptr + (peer - 1) * chunks + chunk
            while tl.atomic_add(flag_ptr, 0, sem="acquire") < PARTS:
                pass
            a_ptr = gathered_ptr + (peer - 1).to(tl.int64) * M * K
        a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
        weight_ptrs = weight_ptr + offs_k[:, None] * stride_wk + offs_n[None, :] * stride_wn
        weight_step = tl.cast(stride_wk, tl.int64) * BLOCK_K
        for k in range(0, K, BLOCK_K):
            mask_k = offs_k < K - k
            a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
            if weight_descriptor is None:
                weight = tl.load(weight_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
            else:
                weight = weight_descriptor.load([k, column])
            acc = tl.dot(a, weight, acc)
            a_ptrs += BLOCK_K
            weight_ptrs += weight_step

    rows = (rank + peer) % R * tl.cast(M, tl.int64) + offs_m
    out_ptrs = out_ptr + rows[:, None] * N + offs_n[None, :]
    tl.store(out_ptrs, acc, mask=mask_m[:, None] & mask_n[None, :])


# Multiplications from which on descriptors, and a copy of rows that are not aligned, gain time.
LARGE = 2**26


def shared_memory(device: torch.device) -> int:
    """How many bytes of shared memory a program can have; an H100's in the interpreter."""
    if device.type != "cuda":
        return 227 * 1024
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


def has_tma(device: torch.device) -> bool:
    """Whether there is a tensor memory accelerator, and shared memory for three stages of tiles."""
    if device.type == "cuda" and torch.cuda.get_device_properties(device).major < 9:
        return False
    return shared_memory(device) >= 160 * 1024


def is_aligned(x: torch.Tensor) -> bool:
    """Whether the rows of x are contiguous and begin at multiples of 16 bytes."""
    aligned = x.data_ptr() % 16 == 0 and x.stride(0) % 8 == 0
    return aligned and x.stride(1) == 1 and x.stride(0) >= x.shape[1]


def padded(x: torch.Tensor, rows: int, cols: int) -> torch.Tensor:
    """A copy of x with zeros up to (rows, cols)."""
    y = torch.empty(rows, cols, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(rows, 4) * triton.cdiv(cols, 1024),)
    with on(x):
        pad_kernel[grid](
            x, y, *x.shape, *x.stride(), rows, cols, BLOCK_M=4, BLOCK_N=1024, num_warps=8
        )
    return y


def all_gather_matmul(
    shards: list[torch.Tensor], weights: list[torch.Tensor]
) -> list[torch.Tensor]:
    if not shards or shards[0].dim() != 2 or shards[0].dtype not in (torch.float16, torch.bfloat16):
        raise ValueError("shards must be 2-D, float16 or bfloat16, and at least one")
    (M, K), dtype = shards[0].shape, shards[0].dtype
    if not all(x.shape == (M, K) and x.dtype == dtype and x.is_contiguous() for x in shards):
        raise ValueError(f"shards must all be {dtype} {(M, K)} and contiguous")
    if len(weights) != len(shards) or weights[0].dim() != 2 or weights[0].shape[0] != K:
        raise ValueError(f"weights must be {len(shards)} tensors of shape ({K}, N)")
    N = weights[0].shape[1]
    for x, weight in zip(shards, weights, strict=True):
        if weight.shape != (K, N) or weight.dtype != dtype or weight.device != x.device:
            raise ValueError(f"weights must all be {dtype} {(K, N)}, each on its shard's device")
    R = len(shards)
    results = [torch.empty(R * M, N, dtype=dtype, device=x.device) for x in shards]
    large = M * N * K >= LARGE and has_tma(shards[0].device)
    if large and not all(map(is_aligned, (*shards, *weights))):
        K = triton.cdiv(K, 64) * 64
        shards = [padded(x, M, K) for x in shards]
        weights = [padded(x, K, triton.cdiv(N, 64) * 64) for x in weights]
    BLOCK_M, BLOCK_K = 128, 64
    BLOCK_N, PIECE = 128 if K % 16 else 256, 16384
    chunks = triton.cdiv(M, BLOCK_M)
    # A program copies whole chunks, but if there are few, each is cut into parts.
    parts = triton.cdiv(PROGRAMS, max(1, chunks))
    copiers = PROGRAMS if R > 1 else 0
    tiles = R * chunks * triton.cdiv(N, BLOCK_N)
    gathered = [torch.empty((R - 1) * M, K, dtype=dtype, device=x.device) for x in shards]
    flags = [torch.zeros(R * chunks, dtype=torch.int32, device=x.device) for x in shards]
    signals = signals_for(shards)
    if signals is None:
        meet(shards)
    for rank, (own, weight) in enumerate(zip(shards, weights, strict=True)):
        peers = own_signals = None
        if signals is not None:
            peers, own_signals = (*signals[rank + 1 :], *signals[:rank]), signals[rank]
        descriptors = None, None
        if large:
            descriptors = (
                TensorDescriptor.from_tensor(own, [BLOCK_M, BLOCK_K]),
                TensorDescriptor.from_tensor(weight, [BLOCK_K, BLOCK_N]),
            )
        with on(own):
            # From the own shard on, so that no two ranks begin with the same peer.
            all_gather_matmul_kernel[(copiers + tiles,)](
                (*shards[rank:], *shards[:rank]),
                gathered[rank], flags[rank], weight, results[rank], peers, own_signals,
                *descriptors, M, N, K, *weight.stride(), rank, copiers, parts,
                BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=16, PIECE=PIECE,
                num_warps=8, num_stages=3,
            )  # fmt: skip
    if signals is None:
        meet(shards)
    return results
