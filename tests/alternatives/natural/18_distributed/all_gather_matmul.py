# One program a chunk copies it, row by row, and raises its flag; tiles lie in row-major order.

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
def all_gather_matmul_kernel(
    shards, gathered_ptr, flags_ptr, weight_ptr, out_ptr,
    M, N, K,
    stride_wk, stride_wn,
    rank,
    RANKS: tl.constexpr, ROW: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    chunks = tl.cdiv(M, BLOCK_M)
    copies = (RANKS - 1) * chunks
    if pid < copies:
        columns = tl.arange(0, ROW)
        for step in tl.static_range(1, RANKS):
            if pid // chunks == step - 1:
                first = pid % chunks * BLOCK_M
                for row in range(first, min(first + BLOCK_M, M)):
                    x = tl.load(shards[step] + row * K + columns, mask=columns < K)
                    at = (step * M + row) * K + columns
                    tl.store(gathered_ptr + at, x, mask=columns < K)
        tl.debug_barrier()
        tl.atomic_xchg(flags_ptr + pid, 1, sem="release")
    else:
        tile = pid - copies
        tiles_n = tl.cdiv(N, BLOCK_N)
        step = tile // (chunks * tiles_n)
        chunk = tile // tiles_n % chunks
        a_ptr = shards[0]
        if step > 0:
            while tl.atomic_add(flags_ptr + (step - 1) * chunks + chunk, 0, sem="acquire") == 0:
                pass
            a_ptr = gathered_ptr + step * M * K
        offs_m = chunk * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            offs_k = k + tl.arange(0, BLOCK_K)
            mask_a = (offs_m[:, None] < M) & (offs_k[None, :] < K)
            mask_w = (offs_k[:, None] < K) & (offs_n[None, :] < N)
            a = tl.load(a_ptr + offs_m[:, None] * K + offs_k[None, :], mask=mask_a, other=0.0)
            w_ptrs = weight_ptr + offs_k[:, None] * stride_wk + offs_n[None, :] * stride_wn
            acc += tl.dot(a, tl.load(w_ptrs, mask=mask_w, other=0.0))
        rows = (rank + step) % RANKS * M + offs_m
        mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
        tl.store(out_ptr + rows[:, None] * N + offs_n[None, :], acc, mask=mask)


def all_gather_matmul(shards, weights):
    R, (M, K), N = len(shards), shards[0].shape, weights[0].shape[1]
    chunks = triton.cdiv(M, 64)
    programs = (R - 1) * chunks + R * chunks * triton.cdiv(N, 128)
    results = []
    meet(shards)
    for rank, weight in enumerate(weights):
        gathered = torch.empty((R * M, K), dtype=weight.dtype, device=weight.device)
        flags = torch.zeros(R * chunks, dtype=torch.int32, device=weight.device)
        out = torch.empty((R * M, N), dtype=weight.dtype, device=weight.device)
        with on(weight):
            all_gather_matmul_kernel[(programs,)](
                tuple(shards[rank:] + shards[:rank]), gathered, flags, weight, out,
                M, N, K, *weight.stride(), rank,
                RANKS=R, ROW=triton.next_power_of_2(K), BLOCK_M=64, BLOCK_N=128, BLOCK_K=64,
            )  # fmt: skip
        results.append(out)
    meet(shards)
    return results
