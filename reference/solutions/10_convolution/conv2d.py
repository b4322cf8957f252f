"""10.3  2-D convolution: one good answer.

Large products with stride 1 have boxes of pixels as tiles: the tensor memory accelerator fetches
the box of x that a tap sees, with 0 outside of the image, and no thread tests a border. Elsewhere a
step belongs to one tap, or to several where there are few channels, and the border is tested once
for each pixel. Offsets have 32 bits unless a tensor needs 64. Large products whose channels are not
last get a copy in which they are, as cuDNN makes one.
"""

from __future__ import annotations

from operator import mul

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

Pair = int | tuple[int, int]

# Multiplications from which on boxes, and a copy with channels last, save more time than they take.
LARGE = 2**26


@triton.jit
def channels_last_kernel(
    x_ptr, copy_ptr,
    C, H, W, padded_c,
    stride_n, stride_c, stride_h, stride_w,
    BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    """Copy x (N, C, H, W) to (N, H, W, padded_c), with zeros behind its channels."""
    tile = tl.program_id(0)
    tiles_c, tiles_p = tl.cdiv(padded_c, BLOCK_C), tl.cdiv(H * W, BLOCK_P)
    n = (tile // tiles_c // tiles_p).to(tl.int64)
    c = (tile % tiles_c).to(tl.int64) * BLOCK_C + tl.arange(0, BLOCK_C)
    pixel = (tile // tiles_c % tiles_p).to(tl.int64) * BLOCK_P + tl.arange(0, BLOCK_P)
    inside = (pixel < H * W)[:, None]
    x_offs = n * stride_n + pixel // W * stride_h + pixel % W * stride_w
    x = tl.load(
        x_ptr + (x_offs[:, None] + c[None, :] * stride_c), mask=inside & (c < C)[None, :], other=0.0
    )  # [BLOCK_P, BLOCK_C]
    copy_offs = (n * H * W + pixel) * padded_c
    tl.store(copy_ptr + (copy_offs[:, None] + c[None, :]), x, mask=inside & (c < padded_c)[None, :])


@triton.jit
def conv2d_kernel(
    x_ptr, weight_ptr, out_ptr,
    NPQ, PQ, Q, C, H, W, K,
    stride_xn, stride_xc, stride_xh, stride_xw,
    stride_wk, stride_wc, stride_wr, stride_ws,
    stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w,
    groups,
    R: tl.constexpr, S: tl.constexpr, FLAT: tl.constexpr, INDEX: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # C and K count the channels and the filters of one group.
    pid = tl.program_id(0)
    tiles_f, tiles_p = tl.cdiv(K, BLOCK_F), tl.cdiv(NPQ, BLOCK_P)
    group = (pid // tiles_f // tiles_p).to(INDEX)
    offs_f = pid % tiles_f * BLOCK_F + tl.arange(0, BLOCK_F)
    first = (pid // tiles_f % tiles_p).to(INDEX) * BLOCK_P
    pixel = first + tl.arange(0, BLOCK_P)
    mask_f, mask_p = offs_f < K, pixel < NPQ
    n, pq = pixel // PQ, pixel % PQ
    top, left = pq // Q * stride_h - padding_h, pq % Q * stride_w - padding_w

    x_offs = group * C * stride_xc + n * stride_xn + top * stride_xh + left * stride_xw
    weight_offs = (group * K + offs_f) * stride_wk
    tap_h = tl.cast(stride_xh, INDEX) * dilation_h
    tap_w = tl.cast(stride_xw, INDEX) * dilation_w
    top, left = top.to(tl.int32), left.to(tl.int32)
    offs_k = tl.arange(0, BLOCK_K)
    blocks_c = tl.cdiv(C, BLOCK_K)
    steps = tl.cdiv(R * S * C, BLOCK_K) if FLAT else R * S * blocks_c
    acc = tl.zeros((BLOCK_F, BLOCK_P), dtype=tl.float32)
    # Without it Triton 3.6 waits for each wgmma before it starts the next: see 07.5.
    tl.assume(steps > 0)
    for step in range(steps):
        # The reduction runs over (r, s, c): where channels are last, its tile is contiguous.
        if FLAT:
            k = step * BLOCK_K + offs_k
            tap, c = k // C, k % C
        else:
            tap, c = step // blocks_c, step % blocks_c * BLOCK_K + offs_k
        r, s, mask_k = tap // S, tap % S, (c < C) & (tap < R * S)
        c_, r_, s_ = c.to(INDEX), tl.cast(r, INDEX), tl.cast(s, INDEX)
        x_step = c_ * stride_xc + r_ * tap_h + s_ * tap_w
        weight_step = c_ * stride_wc + r_ * stride_wr + s_ * stride_ws
        if FLAT:
            r, s = r[:, None], s[:, None]
        # [1, BLOCK_P] where a step has one tap, else [BLOCK_K, BLOCK_P]
        h, w = top[None, :] + r * dilation_h, left[None, :] + s * dilation_w
        inside = (h >= 0) & (h < H) & (w >= 0) & (w < W) & mask_p[None, :]
        x_ptrs = x_ptr + (x_offs[None, :] + x_step[:, None])
        x = tl.load(x_ptrs, mask=inside & mask_k[:, None], other=0.0)  # [BLOCK_K, BLOCK_P]
        weight = tl.load(  # [BLOCK_F, BLOCK_K]
            weight_ptr + (weight_offs[:, None] + weight_step[None, :]),
            mask=mask_f[:, None] & mask_k[None, :],
            other=0.0,
        )
        acc = tl.dot(weight, x, acc)

    if first % PQ + BLOCK_P <= PQ:
        # All pixels are of one image, and the compiler sees that they lie side by side.
        rows = (first // PQ * groups + group) * K + offs_f
        offs = rows[:, None] * PQ + (first % PQ + tl.arange(0, BLOCK_P))[None, :]
        tl.store(out_ptr + offs, acc, mask=mask_f[:, None])
    else:
        # Where it sees no neighbours, Triton 3.6 has lanes run along the first dimension: pixels.
        filters = (n[:, None] * groups + group) * K + offs_f[None, :]
        ptrs = out_ptr + (filters * PQ + pq[:, None])
        tl.store(ptrs, acc.T, mask=mask_p[:, None] & mask_f[None, :])


@triton.jit
def boxes_kernel(
    x_descriptor, weight_descriptor, out_ptr,
    N, P, Q, boxes_p, boxes_q, C, K,
    padding_h, padding_w, dilation_h, dilation_w,
    R: tl.constexpr, S: tl.constexpr, EXACT: tl.constexpr, INDEX: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_K: tl.constexpr,
    BOX_N: tl.constexpr, BOX_P: tl.constexpr, BOX_Q: tl.constexpr,
):  # fmt: skip
    """As conv2d_kernel of one group; a tile has BOX_N images, BOX_P rows and BOX_Q columns."""
    tiles_f = tl.cdiv(K, BLOCK_F)
    f, box = tl.program_id(0) % tiles_f * BLOCK_F, tl.program_id(0) // tiles_f
    first_n = box // boxes_q // boxes_p * BOX_N
    first_p, first_q = box // boxes_q % boxes_p * BOX_P, box % boxes_q * BOX_Q
    if EXACT:
        # No pixel lies past an end, and the compiler sees that rows are multiples of BOX_Q.
        P, Q = boxes_p * BOX_P, boxes_q * BOX_Q
    BLOCK_P: tl.constexpr = BOX_N * BOX_P * BOX_Q
    blocks_c = C // BLOCK_K  # which divides it
    acc = tl.zeros((BLOCK_F, BLOCK_P), dtype=tl.float32)
    # Without it Triton 3.6 waits for each wgmma before it starts the next: see 07.5.
    tl.assume(blocks_c > 0)
    for step in range(R * S * blocks_c):
        tap, c = step // blocks_c, step % blocks_c * BLOCK_K
        h = first_p - padding_h + tap // S * dilation_h
        w = first_q - padding_w + tap % S * dilation_w
        x = x_descriptor.load([first_n, h, w, c]).reshape(BLOCK_P, BLOCK_K)
        weight = weight_descriptor.load([f, step * BLOCK_K])  # [BLOCK_F, BLOCK_K]
        acc = tl.dot(weight, x.T, acc)

    pixel = tl.arange(0, BLOCK_P)
    n = first_n + pixel // (BOX_P * BOX_Q)
    p, q = first_p + pixel // BOX_Q % BOX_P, first_q + pixel % BOX_Q
    offs_f = f + tl.arange(0, BLOCK_F)
    PQ = tl.cast(P * Q, INDEX)
    offs = (n * (PQ * K) + p * Q + q)[None, :] + (offs_f * PQ)[:, None]
    mask = offs_f[:, None] < K
    if not EXACT:
        mask = mask & ((n < N) & (p < P) & (q < Q))[None, :]
    tl.store(out_ptr + offs, acc, mask=mask)


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


def box_of_pixels(N: int, P: int, Q: int, pixels: int) -> tuple[int, ...] | None:
    """Images, rows and columns of boxes of so many pixels; None if many lie past the ends."""
    shortest, boxes = min(16, triton.next_power_of_2(Q)), []
    for i in range(pixels.bit_length()):
        for j in range(i + 1):
            BOX_N, BOX_P, BOX_Q = 2**j, 2 ** (i - j), pixels >> i
            count = triton.cdiv(N, BOX_N) * triton.cdiv(P, BOX_P) * triton.cdiv(Q, BOX_Q)
            # Shorter rows would be stored in pieces of less than 32 bytes.
            if shortest <= BOX_Q:
                boxes.append((count, -BOX_Q, BOX_N, BOX_P, BOX_Q))
    count, _, *box = min(boxes)
    return tuple(box) if count * pixels <= 1.25 * N * P * Q else None


def is_last(x: torch.Tensor) -> bool:
    """Whether the channels of x lie side by side, so that 16 bytes of them can go at a time."""
    stride_n, stride_c, stride_h, stride_w = x.stride()
    steps = x.shape[1], stride_n, stride_h, stride_w
    return stride_c == 1 and x.data_ptr() % 16 == 0 and all(it > 0 and it % 16 == 0 for it in steps)


def channels_last(x: torch.Tensor, padded_c: int) -> torch.Tensor:
    """A copy of x with its channels side by side in memory, and zeros as further channels."""
    N, C, H, W = x.shape
    copy = torch.empty((N, H, W, padded_c), dtype=x.dtype, device=x.device).permute(0, 3, 1, 2)
    if x.stride(2) == W * x.stride(3):
        # Then the pixels of an image are one row.
        H, W = 1, H * W
    BLOCK_C, BLOCK_P = 64, 64 if H * W >= 64 else 16
    grid = (N * triton.cdiv(padded_c, BLOCK_C) * triton.cdiv(H * W, BLOCK_P),)
    channels_last_kernel[grid](
        x, copy, C, H, W, padded_c, x.stride(0), x.stride(1), x.stride(2), x.stride(3),
        BLOCK_C=BLOCK_C, BLOCK_P=BLOCK_P,
    )  # fmt: skip
    return copy


def pair(name: str, value: Pair, least: int) -> tuple[int, int]:
    """(height, width). Raises ValueError unless both are ints of at least this much."""
    both = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(both) != 2 or not all(isinstance(it, int) and it >= least for it in both):
        raise ValueError(f"{name} must be an int or two of at least {least}, not {value}")
    return both


def conv2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> torch.Tensor:
    if x.dim() != 4 or x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"x must be 4-D and float16, bfloat16 or float32, not {x.dtype} {tuple(x.shape)}"
        )
    N, C, H, W = x.shape
    stride_h, stride_w = pair("stride", stride, 1)
    padding_h, padding_w = pair("padding", padding, 0)
    dilation_h, dilation_w = pair("dilation", dilation, 1)
    if not isinstance(groups, int) or groups < 1 or C % groups:
        raise ValueError(f"groups must divide {C} channels, not {groups}")
    C //= groups
    if weight.dim() != 4 or weight.shape[1] != C or weight.dtype != x.dtype:
        raise ValueError(
            f"weight must be {x.dtype} (K, {C}, R, S), not {weight.dtype} {tuple(weight.shape)}"
        )
    K, _, R, S = weight.shape
    P = (H + 2 * padding_h - dilation_h * (R - 1) - 1) // stride_h + 1
    Q = (W + 2 * padding_w - dilation_w * (S - 1) - 1) // stride_w + 1
    if K % groups or min(P, Q, R, S) < 1:
        raise ValueError(
            f"weight {tuple(weight.shape)} must have filters for {groups} groups, and a window "
            f"within {(H, W)} and its padding"
        )
    out = torch.empty((N, K, P, Q), dtype=x.dtype, device=x.device)
    K //= groups
    # Few channels would leave most of a step of one tap empty: let it have several.
    FLAT = C < 32
    large = N * P * Q * K * C * R * S >= LARGE
    if large and not FLAT:
        padded_c = C if groups > 1 else triton.cdiv(C, 16) * 16
        x = x if is_last(x) else channels_last(x, padded_c * groups)
        weight = weight if is_last(weight) else channels_last(weight, padded_c)
        C = padded_c
    # Offsets of 64 bits take twice as many registers. Half of the range is left to masked lanes.
    ends = (
        sum(map(mul, (N, C * groups, H + padding_h, W + padding_w), x.stride())),
        sum(map(mul, weight.shape, weight.stride())),
        out.numel(),
    )
    INDEX = tl.int64 if max(ends) > 2**30 else tl.int32
    box = None
    if (
        large
        and x.element_size() == 2
        and groups == stride_h == stride_w == 1
        and C % 32 == 0
        and is_last(x)
        and is_last(weight)
        and weight.permute(0, 2, 3, 1).is_contiguous()
        and has_tma(x.device)
    ):
        BLOCK_F = 128 if K > 64 else 64
        BLOCK_K = 32 if C % 64 else 64
        # Where steps are few, two smaller programs share a multiprocessor: while one begins or
        # ends, the other has products.
        wide = BLOCK_F == 128 and R * S * C >= 16 * BLOCK_K
        pixels, num_warps, num_stages = (256, 8, 4) if wide else (128, 4, 3)
        # With three stages, steps of 64 channels take up to 2 % less, and of 32 up to 7 % more
        # (H100, 2026-11-27).
        if BLOCK_K == 64:
            num_stages = 3
        box = box_of_pixels(N, P, Q, pixels)
    if box is not None:
        BOX_N, BOX_P, BOX_Q = box
        boxes_p, boxes_q = triton.cdiv(P, BOX_P), triton.cdiv(Q, BOX_Q)
        filters = weight.permute(0, 2, 3, 1).flatten(1)
        boxes_kernel[(triton.cdiv(K, BLOCK_F) * triton.cdiv(N, BOX_N) * boxes_p * boxes_q,)](
            TensorDescriptor.from_tensor(x.permute(0, 2, 3, 1), [*box, BLOCK_K]),
            TensorDescriptor.from_tensor(filters, [BLOCK_F, BLOCK_K]),
            out, N, P, Q, boxes_p, boxes_q, C, K,
            padding_h, padding_w, dilation_h, dilation_w,
            R=R, S=S, EXACT=N % BOX_N == P % BOX_P == Q % BOX_Q == 0, INDEX=INDEX,
            BLOCK_F=BLOCK_F, BLOCK_K=BLOCK_K, BOX_N=BOX_N, BOX_P=BOX_P, BOX_Q=BOX_Q,
            num_warps=num_warps, num_stages=num_stages,
        )  # fmt: skip
        return out
    # Where channels are last, both tiles go to shared memory 16 bytes at a time. Otherwise numbers
    # of 2 bytes go through registers, and beside the sums there are few of them. GPUs for
    # workstations have 99 KiB of shared memory.
    last = x.stride(1) == weight.stride(1) == 1
    BLOCK_F = max(16, min(triton.next_power_of_2(K), 128 if last else 256))
    BLOCK_P = 256 if last and BLOCK_F == 128 and shared_memory(x.device) > 2**17 else 128
    BLOCK_K = 32 if FLAT or not last else 128 // x.element_size()
    grid = (groups * triton.cdiv(K, BLOCK_F) * triton.cdiv(N * P * Q, BLOCK_P),)
    conv2d_kernel[grid](
        x, weight, out, N * P * Q, P * Q, Q, C, H, W, K, *x.stride(), *weight.stride(),
        stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w, groups,
        R=R, S=S, FLAT=FLAT, INDEX=INDEX, BLOCK_F=BLOCK_F, BLOCK_P=BLOCK_P, BLOCK_K=BLOCK_K,
        num_warps=8 if BLOCK_F >= 128 else 4, num_stages=4 if last else 3,
    )  # fmt: skip
    return out
