"""12.6  Linear layer and cross entropy: one good answer.

The logits of one chunk of rows are in memory at a time, and their gradient takes their place.
dweight is added up over the chunks in float32, inside the matmul, and rounded once, after the last.
Large products load by descriptors, as in 07.5, and rows of logits are padded to whole lines.
The loss of a row is one pass with a maximum and a sum for each lane, which meet once at the end.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# Multiplications from which on descriptors gain time.
LARGE = 2**26
# Products of so few tiles, half as many as a large GPU has multiprocessors, get narrower ones.
FEW = 66


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, a_descriptor, b_descriptor, c_ptr, sum_ptr, count_ptr,
    M, N, K, width,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm,
    A_IS_TURNED: tl.constexpr, B_IS_TURNED: tl.constexpr,
    ADD: tl.constexpr, KEEP: tl.constexpr, DIVIDE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """c = a @ b. ADD: what sum holds is added. KEEP: it goes to sum instead. DIVIDE: by count.

    width: of c, if not N; the rest of its columns is -inf.
    """
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP_M * tiles_n) * GROUP_M
    rows = min(tiles_m - first_m, GROUP_M)
    place = pid % (GROUP_M * tiles_n)

    pid_m, pid_n = first_m + place % rows, place // rows
    offs_m = pid_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)
    mask_m, mask_n = offs_m < M, offs_n < N
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    a_step = tl.cast(stride_ak, tl.int64) * BLOCK_K
    b_step = tl.cast(stride_bk, tl.int64) * BLOCK_K
    offsets = offs_m[:, None] * stride_cm + offs_n[None, :]
    mask_c = mask_n if width is None else offs_n < width
    mask = mask_m[:, None] & mask_c[None, :]
    if ADD:  # loaded here, where the first tiles of a and b are under way, too
        acc = tl.load(sum_ptr + offsets, mask=mask, other=0.0)
    else:
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # Without a path that skips the loop, Triton 3.6 keeps several wgmma under way (see 07.5).
    tl.assume(K > 0)
    for k in range(0, K, BLOCK_K):
        if a_descriptor is None:
            mask_k = offs_k < K - k
            a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
            b = tl.load(b_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
        else:
            m, n = pid_m * BLOCK_M, pid_n * BLOCK_N
            a = a_descriptor.load([k, m]).T if A_IS_TURNED else a_descriptor.load([m, k])
            b = b_descriptor.load([n, k]).T if B_IS_TURNED else b_descriptor.load([k, n])
        acc = tl.dot(a, b, acc)
        a_ptrs += a_step
        b_ptrs += b_step

    if width is not None:
        acc += tl.where(mask_n, 0.0, float("-inf"))[None, :]
    if KEEP:
        tl.store(sum_ptr + offsets, acc, mask=mask)
    else:
        if DIVIDE:
            acc = acc / tl.load(count_ptr)
        tl.store(c_ptr + offsets, acc, mask=mask)


@triton.jit
def count_kernel(targets_ptr, count_ptr, M, stride_t, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK).to(tl.int64)
    kept = tl.zeros((BLOCK,), dtype=tl.int32)
    for start in range(0, M, BLOCK):
        targets = tl.load(
            targets_ptr + (start + offs) * stride_t, mask=offs < M - start, other=-100
        )
        kept += (targets != -100).to(tl.int32)
    tl.store(count_ptr, tl.maximum(tl.sum(kept), 1).to(tl.float32))


@triton.jit
def cross_entropy_kernel(
    logits_ptr, targets_ptr, losses_ptr,
    V,
    stride_t,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets_ptr + row * stride_t)
    logits_ptr += row * V
    offs_v = tl.arange(0, BLOCK_V)
    if target == -100:
        for start in range(0, V, BLOCK_V):
            zeros = tl.zeros((BLOCK_V,), dtype=logits_ptr.dtype.element_ty)
            tl.store(logits_ptr + start + offs_v, zeros, mask=offs_v < V - start)
        tl.store(losses_ptr + row, 0.0)
    else:
        at_target = tl.load(logits_ptr + target).to(tl.float32)
        # Sums of each lane's own, joined once at the end.
        largest = tl.full((BLOCK_V,), float("-inf"), dtype=tl.float32)
        total = tl.zeros((BLOCK_V,), dtype=tl.float32)
        for start in range(0, V, BLOCK_V):
            mask = offs_v < V - start
            x = tl.load(logits_ptr + start + offs_v, mask=mask, other=float("-inf")).to(tl.float32)
            new = tl.maximum(largest, x)
            # A lane that has seen nothing but -inf keeps its 0.
            shift = tl.where(new == float("-inf"), 0.0, new)
            total = total * tl.exp(largest - shift) + tl.exp(x - shift)
            largest = new
        most = tl.max(largest)
        lse = most + tl.log(tl.sum(total * tl.exp(largest - most)))
        tl.store(losses_ptr + row, lse - at_target)
        for start in range(0, V, BLOCK_V):
            mask = offs_v < V - start
            x = tl.load(logits_ptr + start + offs_v, mask=mask, other=0.0).to(tl.float32)
            p = tl.exp(x - lse)
            gradient = tl.where(start + offs_v == target, p - 1, p)
            tl.store(logits_ptr + start + offs_v, gradient, mask=mask)


@triton.jit
def mean_kernel(losses_ptr, count_ptr, loss_ptr, M, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, M, BLOCK):
        total += tl.load(losses_ptr + start + offs, mask=offs < M - start, other=0.0)
    tl.store(loss_ptr, tl.sum(total) / tl.load(count_ptr))


def check(x: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> None:
    """Raises ValueError that names the first argument that does not fit."""
    if x.dim() != 2 or x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"x must be 2-D and float16, bfloat16 or float32, not {x.dtype} {tuple(x.shape)}"
        )
    M, D = x.shape
    if weight.dim() != 2 or weight.shape[1] != D or weight.dtype != x.dtype:
        raise ValueError(
            f"weight must be {x.dtype} (V, {D}), not {weight.dtype} {tuple(weight.shape)}"
        )
    if targets.shape != (M,) or targets.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"targets must be int32 or int64 {(M,)}, not {targets.dtype} {tuple(targets.shape)}"
        )


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


def is_addressable(x: torch.Tensor) -> bool:
    """Whether the tensor memory accelerator can fetch tiles of x."""
    aligned = x.data_ptr() % 16 == 0 and x.stride(0) * x.element_size() % 16 == 0
    return aligned and x.stride(1) == 1 and x.stride(0) >= x.shape[1]


def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    count: torch.Tensor,
    *,
    total: torch.Tensor | None = None,
    add: bool = False,
    keep: bool = False,
    divide: bool = False,
) -> None:
    """c = a @ b; total, add, keep and divide are sum_ptr, ADD, KEEP and DIVIDE of the kernel.

    Columns that a has more than b has rows are 0; columns that c has more than b become -inf.
    """
    M, (K, N), width = a.shape[0], b.shape, c.shape[1]
    BLOCK_M = min(128, max(16, triton.next_power_of_2(M)))
    BLOCK_N = min(256 if a.element_size() == 2 else 128, max(16, triton.next_power_of_2(width)))
    while triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N) <= FEW and BLOCK_N > 64:
        BLOCK_N //= 2
    BLOCK_K = 128 // a.element_size()  # 128 bytes: a whole line of the cache
    a_is_turned, b_is_turned = a.stride(1) != 1, b.stride(1) != 1
    descriptors = None, None
    if (
        has_tma(a.device)
        and a.element_size() == 2
        and M * N * K >= LARGE
        and is_addressable(a.T if a_is_turned else a)
        and is_addressable(b.T if b_is_turned else b)
    ):
        descriptors = (
            TensorDescriptor.from_tensor(a.T, [BLOCK_K, BLOCK_M])
            if a_is_turned
            else TensorDescriptor.from_tensor(a, [BLOCK_M, BLOCK_K]),
            TensorDescriptor.from_tensor(b.T, [BLOCK_N, BLOCK_K])
            if b_is_turned
            else TensorDescriptor.from_tensor(b, [BLOCK_K, BLOCK_N]),
        )
    matmul_kernel[(triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)](
        a, b, *descriptors, c, c if total is None else total, count,
        M, N, K, None if width == N else width,
        *a.stride(), *b.stride(), c.stride(0),
        A_IS_TURNED=a_is_turned, B_IS_TURNED=b_is_turned,
        ADD=add, KEEP=keep, DIVIDE=divide,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=16,
        num_warps=8,
        num_stages=3 if descriptors[0] is None else 4,
    )  # fmt: skip


def fused_linear_cross_entropy(
    x: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    check(x, weight, targets)
    (M, D), V = x.shape, weight.shape[0]
    loss = torch.empty((), dtype=torch.float32, device=x.device)
    dx = torch.empty((M, D), dtype=x.dtype, device=x.device)
    dweight = torch.empty((V, D), dtype=x.dtype, device=x.device)
    # The rows of the logits are whole lines of the cache, 128 bytes each, and are loaded and stored
    # 16 bytes at a time. Past V they are -inf, so that their gradient is 0.
    width = V if V < 64 else triton.cdiv(V, 64) * 64
    # The logits of a chunk are no larger than the larger factor, and a multiple of its tiles.
    chunk = max(1, max(M, V) * max(D, 16) // width)
    chunk = min(M, chunk // 128 * 128 or chunk)
    logits = torch.empty((chunk, width), dtype=x.dtype, device=x.device)
    total = None
    if chunk < M:
        total = torch.empty((V, D), dtype=torch.float32, device=x.device)
    losses = torch.empty(M, dtype=torch.float32, device=x.device)
    count = torch.empty(1, dtype=torch.float32, device=x.device)
    count_kernel[(1,)](targets, count, M, targets.stride(0), BLOCK=4096, num_warps=8)
    BLOCK_V = min(triton.next_power_of_2(width), 4096)
    for start in range(0, M, chunk):
        end = min(M, start + chunk)
        rows, g = x[start:end], logits[: end - start]
        matmul(rows, weight.T, g, count)
        cross_entropy_kernel[(end - start,)](
            g, targets[start:end], losses[start:end],
            width, targets.stride(0), BLOCK_V=BLOCK_V, num_warps=max(4, BLOCK_V // 256),
        )  # fmt: skip
        matmul(g, weight, dx[start:end], count, divide=True)
        # All rows take part in dweight: their sum stays in float32 until the last chunk.
        first, last = start == 0, end == M
        matmul(
            g.T[:V], rows, dweight, count, total=total, add=not first, keep=not last, divide=True
        )
    mean_kernel[(1,)](losses, count, loss, M, BLOCK=1024, num_warps=8)
    return loss, dx, dweight
