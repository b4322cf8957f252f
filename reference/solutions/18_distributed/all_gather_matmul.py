"""18.4  All-gather and matmul in one launch: one good answer.

At most 32 programs copy the peers' rows, and all others multiply meanwhile: their own rows first,
then each chunk when its flag says that it is there. A flag is raised after a barrier, since one
thread raises it for all that stored. Each rank begins with another peer, so that no two copy from
the same one first.
"""

import contextlib

import torch
import triton
import triton.language as tl


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


@triton.jit
def fetch(
    shards, gathered_ptr, flags_ptr, M, K, COPIERS, BLOCK_M: tl.constexpr, PIECE: tl.constexpr
):
    chunks, pieces = tl.cdiv(M, BLOCK_M), tl.cdiv(BLOCK_M * K, PIECE)
    size = tl.cast(M, tl.int64) * K
    for peer in tl.static_range(1, len(shards)):
        for number in range(tl.program_id(0), chunks * pieces, COPIERS):
            chunk = number // pieces
            inside = number % pieces * PIECE + tl.arange(0, PIECE)  # [PIECE]
            offs = chunk.to(tl.int64) * BLOCK_M * K + inside
            mask = (inside < BLOCK_M * K) & (offs < size)
            rows = tl.load(shards[peer] + offs, mask=mask)
            tl.store(gathered_ptr + (peer - 1) * size + offs, rows, mask=mask)
            # The flag is raised by one thread: not before all have stored.
            tl.debug_barrier()
            tl.atomic_add(flags_ptr + (peer - 1) * chunks + chunk, 1, sem="release")


@triton.jit(do_not_specialize=["rank"])
def all_gather_matmul_kernel(
    shards, gathered_ptr, flags_ptr, weight_ptr, out_ptr,
    M, N, K,
    stride_wk, stride_wn,
    rank,
    COPIERS,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, PIECE: tl.constexpr,
):  # fmt: skip
    R: tl.constexpr = len(shards)
    if tl.program_id(0) < COPIERS:
        fetch(shards, gathered_ptr, flags_ptr, M, K, COPIERS, BLOCK_M, PIECE)
        return

    # Chunks of BLOCK_M rows in the order in which they are there: the own ones, then each peer's.
    # GROUP_M of them make a group, of which tiles are taken column by column.
    pid = tl.program_id(0) - COPIERS
    chunks, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first = pid // (GROUP_M * tiles_n) * GROUP_M
    height = min(R * chunks - first, GROUP_M)
    place = pid % (GROUP_M * tiles_n)
    chunk = first + place % height
    peer = chunk // chunks

    a_ptr = shards[0]
    if peer > 0:
        pieces = tl.cdiv(BLOCK_M * K, PIECE)
        while tl.atomic_add(flags_ptr + chunk - chunks, 0, sem="acquire") < pieces:
            pass
        a_ptr = gathered_ptr + (peer - 1).to(tl.int64) * M * K

    offs_m = (chunk % chunks).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = (place // height).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)
    mask_m, mask_n = offs_m < M, offs_n < N
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    weight_ptrs = weight_ptr + offs_k[:, None] * stride_wk + offs_n[None, :] * stride_wn
    weight_step = tl.cast(stride_wk, tl.int64) * BLOCK_K
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # Otherwise there is a path that skips the loop, on which no wgmma sets acc, and Triton 3.6
    # therefore waits for each wgmma before it starts the next (sm_90; 3.7 and 3.9 do not).
    tl.assume(K > 0)
    for k in range(0, K, BLOCK_K):
        mask_k = offs_k < K - k
        a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
        weight = tl.load(weight_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
        acc = tl.dot(a, weight, acc)
        a_ptrs += BLOCK_K
        weight_ptrs += weight_step

    rows = (rank + peer) % R * tl.cast(M, tl.int64) + offs_m
    out_ptrs = out_ptr + rows[:, None] * N + offs_n[None, :]
    tl.store(out_ptrs, acc, mask=mask_m[:, None] & mask_n[None, :])


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
    # Few programs copy: they keep a link busy, and the other multiprocessors multiply meanwhile.
    BLOCK_M, BLOCK_N, PIECE = 128, 128 if K % 16 else 256, 16384
    chunks = triton.cdiv(M, BLOCK_M)
    copiers = min(32, chunks * triton.cdiv(BLOCK_M * K, PIECE)) if R > 1 else 0
    tiles = R * chunks * triton.cdiv(N, BLOCK_N)
    results = [torch.empty(R * M, N, dtype=dtype, device=x.device) for x in shards]
    gathered = [torch.empty((R - 1) * M, K, dtype=dtype, device=x.device) for x in shards]
    flags = [torch.zeros(R * chunks, dtype=torch.int32, device=x.device) for x in shards]
    meet(shards)
    for rank, (own, weight) in enumerate(zip(shards, weights, strict=True)):
        with on(own):
            # From the own shard on, so that no two ranks begin with the same peer.
            all_gather_matmul_kernel[(copiers + tiles,)](
                (*shards[rank:], *shards[:rank]),
                gathered[rank], flags[rank], weight, results[rank],
                M, N, K, *weight.stride(), rank, copiers,
                BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=64, GROUP_M=8, PIECE=PIECE,
                num_warps=8, num_stages=3,
            )  # fmt: skip
    meet(shards)
    return results
