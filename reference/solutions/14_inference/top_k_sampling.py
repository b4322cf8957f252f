"""14.4  Top-k sampling: one good answer.

A long row is narrowed first: the largest numbers of its pieces give a bound that at least k numbers
reach, and what reaches it is all that is searched. The threshold is found bit by bit, in integers
that have the order of the numbers, without a sort. If a chunk has more candidates than places, the
whole row is searched.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

# Long rows are narrowed to candidates first: chunks of a row, pieces of a chunk whose largest
# numbers give a bound, and places for the candidates of a chunk.
CHUNK, PIECE, PLACES = 4096, 512, 64
LONG = 4 * CHUNK


@triton.jit
def ordered(x):
    """Patterns that compare as the numbers do, as uint32. -0.0 is 0.0."""
    bits = (x + 0.0).to(tl.int32, bitcast=True)
    flipped = tl.where(bits < 0, ~bits, bits ^ -2147483648)
    return flipped.to(tl.uint32, bitcast=True)


@triton.jit
def largest_kernel(
    logits_ptr, largest_ptr,
    V, chunks,
    stride_b, stride_v,
    CHUNK: tl.constexpr, PIECE: tl.constexpr,
):  # fmt: skip
    """The largest number of each piece of a chunk."""
    pid = tl.program_id(0)
    row, chunk = (pid // chunks).to(tl.int64), pid % chunks
    PIECES: tl.constexpr = CHUNK // PIECE
    offs = chunk.to(tl.int64) * CHUNK + tl.arange(0, CHUNK)
    ptrs = logits_ptr + row * stride_b + offs * stride_v
    x = tl.load(ptrs, mask=offs < V, other=float("-inf")).to(tl.float32)
    largest = tl.max(x.reshape(PIECES, PIECE), axis=1)
    tl.store(largest_ptr + pid.to(tl.int64) * PIECES + tl.arange(0, PIECES), largest)


@triton.jit
def candidates_kernel(
    logits_ptr, largest_ptr, values_ptr, ids_ptr, counts_ptr,
    V, k, chunks, pieces,
    stride_b, stride_v,
    CHUNK: tl.constexpr, PLACES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The numbers of a chunk that reach the k-th largest of the pieces' largest of their row."""
    pid = tl.program_id(0)
    row, chunk = (pid // chunks).to(tl.int64), pid % chunks
    offs_p = tl.arange(0, BLOCK)
    largest = tl.load(
        largest_ptr + row * pieces + offs_p, mask=offs_p < pieces, other=float("-inf")
    )
    keys = ordered(largest)
    bound = tl.full((), 0, tl.uint32)
    # A bound may be too low: these bits do.
    for i in range(20):
        trial = bound | (tl.full((), 1, tl.uint32) << (31 - i))
        many = tl.sum((keys >= trial).to(tl.int32), axis=0) >= k
        bound = tl.where(many, trial, bound)

    offs = chunk.to(tl.int64) * CHUNK + tl.arange(0, CHUNK)
    ptrs = logits_ptr + row * stride_b + offs * stride_v
    x = tl.load(ptrs, mask=offs < V, other=float("-inf")).to(tl.float32)
    keep = (ordered(x) >= bound) & (offs < V)
    place = tl.cumsum(keep.to(tl.int32), axis=0) - 1
    count = tl.sum(keep.to(tl.int32), axis=0)
    out = pid.to(tl.int64) * PLACES
    tl.store(values_ptr + out + place, x, mask=keep & (place < PLACES))
    tl.store(ids_ptr + out + place, offs.to(tl.int32), mask=keep & (place < PLACES))
    # An empty place holds a banned token.
    rest = tl.arange(0, PLACES)
    tl.store(values_ptr + out + rest, float("-inf"), mask=rest >= count)
    tl.store(ids_ptr + out + rest, 0, mask=rest >= count)
    tl.store(counts_ptr + pid, count)


@triton.jit
def sample(
    x_ptr, N, stride, k, u, temperature, p,
    HAS_P: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The place of the number that is drawn from N numbers."""
    lanes = tl.arange(0, BLOCK)
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, N, BLOCK):
        offs = start + lanes
        ptrs = x_ptr + offs.to(tl.int64) * stride
        top = tl.maximum(top, tl.load(ptrs, mask=offs < N, other=float("-inf")).to(tl.float32))
    m = tl.max(top, axis=0)

    threshold = tl.full((), 0, tl.uint32)
    if k < N:
        for i in range(32):
            trial = threshold | (tl.full((), 1, tl.uint32) << (31 - i))
            counts = tl.zeros((BLOCK,), tl.int32)
            for start in range(0, N, BLOCK):
                offs = start + lanes
                ptrs = x_ptr + offs.to(tl.int64) * stride
                x = tl.load(ptrs, mask=offs < N, other=float("-inf")).to(tl.float32)
                counts += ((ordered(x) >= trial) & (offs < N)).to(tl.int32)
            threshold = tl.where(tl.sum(counts, axis=0) >= k, trial, threshold)

    mass = kept_mass(x_ptr, N, stride, m, threshold, temperature, BLOCK)
    if HAS_P:
        least = p * mass
        of_p = tl.full((), 0, tl.uint32)
        for i in range(32):
            trial = of_p | (tl.full((), 1, tl.uint32) << (31 - i))
            # Below the threshold of k nothing is left to add.
            lowest = tl.maximum(trial, threshold)
            reached = kept_mass(x_ptr, N, stride, m, lowest, temperature, BLOCK) >= least
            of_p = tl.where(reached, trial, of_p)
        threshold = tl.maximum(threshold, of_p)
        mass = kept_mass(x_ptr, N, stride, m, threshold, temperature, BLOCK)

    found, last, carry = tl.cast(N, tl.int32), 0, 0.0
    for start in range(0, N, BLOCK):
        offs = start + lanes
        ptrs = x_ptr + offs.to(tl.int64) * stride
        x = tl.load(ptrs, mask=offs < N, other=float("-inf")).to(tl.float32)
        w = tl.where(ordered(x) >= threshold, tl.exp((x - m) / temperature), 0.0)
        running = carry + tl.cumsum(w, axis=0)
        drawn = tl.where((w > 0) & (running > u * mass), offs, N)
        found = tl.minimum(found, tl.min(drawn, axis=0))
        # Rounding may leave no running sum above: then it is the last of those that stay.
        last = tl.maximum(last, tl.max(tl.where(w > 0, offs, 0), axis=0))
        carry = tl.max(running, axis=0)
    return tl.where(found < N, found, last)


@triton.jit
def kept_mass(x_ptr, N, stride, m, threshold, temperature, BLOCK: tl.constexpr):
    """The sum of exp((x - m) / temperature) over what is at least the threshold."""
    lanes = tl.arange(0, BLOCK)
    masses = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        offs = start + lanes
        ptrs = x_ptr + offs.to(tl.int64) * stride
        x = tl.load(ptrs, mask=offs < N, other=float("-inf")).to(tl.float32)
        masses += tl.where(ordered(x) >= threshold, tl.exp((x - m) / temperature), 0.0)
    return tl.sum(masses, axis=0)


@triton.jit
def top_k_sampling_kernel(
    logits_ptr, values_ptr, ids_ptr, counts_ptr, uniform_ptr, token_ptr,
    V, k, chunks, temperature, p,
    stride_b, stride_v, stride_u,
    HAS_P: tl.constexpr, LONG: tl.constexpr,
    PLACES: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    u = tl.load(uniform_ptr + row * stride_u)
    row_ptr = logits_ptr + row * stride_b
    if LONG:
        offs_c = tl.arange(0, BLOCK_C)
        counts = tl.load(counts_ptr + row * chunks + offs_c, mask=offs_c < chunks, other=0)
        if tl.max(counts, axis=0) <= PLACES:
            first = row * chunks * PLACES
            place = sample(
                values_ptr + first, chunks * PLACES, 1, k, u, temperature, p, HAS_P, BLOCK
            )
            token = tl.load(ids_ptr + first + place)
        else:
            token = sample(row_ptr, V, stride_v, k, u, temperature, p, HAS_P, BLOCK)
    else:
        token = sample(row_ptr, V, stride_v, k, u, temperature, p, HAS_P, BLOCK)
    tl.store(token_ptr + row, token)


def top_k_sampling(
    logits: torch.Tensor,
    uniform: torch.Tensor,
    k: int,
    temperature: float = 1.0,
    p: float = 1.0,
) -> torch.Tensor:
    floats = (torch.float16, torch.bfloat16, torch.float32)
    if logits.dim() != 2 or not logits.numel() or logits.dtype not in floats:
        raise ValueError(
            "logits must be (B, V) of float16, bfloat16 or float32, and not empty, "
            f"not {logits.dtype} {tuple(logits.shape)}"
        )
    B, V = logits.shape
    if uniform.shape != (B,) or uniform.dtype != torch.float32:
        raise ValueError(
            f"uniform must be ({B},) of float32, not {uniform.dtype} {tuple(uniform.shape)}"
        )
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be above 0 and finite, not {temperature}")
    if not 0 < p <= 1:
        raise ValueError(f"p must be above 0 and at most 1, not {p}")
    k = min(k, V)
    token = torch.empty(B, dtype=torch.int64, device=logits.device)
    values = ids = counts = logits
    chunks = triton.cdiv(V, CHUNK)
    long = V >= LONG and k <= V // PIECE
    if long:
        pieces = chunks * (CHUNK // PIECE)
        largest = torch.empty(B, pieces, dtype=torch.float32, device=logits.device)
        values = torch.empty(B, chunks, PLACES, dtype=torch.float32, device=logits.device)
        ids = torch.empty(B, chunks, PLACES, dtype=torch.int32, device=logits.device)
        counts = torch.empty(B, chunks, dtype=torch.int32, device=logits.device)
        largest_kernel[(B * chunks,)](
            logits, largest, V, chunks, *logits.stride(), CHUNK=CHUNK, PIECE=PIECE, num_warps=8
        )
        candidates_kernel[(B * chunks,)](
            logits, largest, values, ids, counts, V, k, chunks, pieces, *logits.stride(),
            CHUNK=CHUNK, PLACES=PLACES, BLOCK=triton.next_power_of_2(pieces), num_warps=8,
        )  # fmt: skip
    top_k_sampling_kernel[(B,)](
        logits, values, ids, counts, uniform, token,
        V, k, chunks, float(temperature), float(p),
        *logits.stride(), uniform.stride(0),
        HAS_P=p < 1, LONG=long, PLACES=PLACES, BLOCK_C=triton.next_power_of_2(chunks),
        BLOCK=min(triton.next_power_of_2(V), 2048), num_warps=8,
    )  # fmt: skip
    return token
