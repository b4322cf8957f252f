"""10.4  Weight gradient of a convolution: one good answer.

The pixels are cut into shares, one or two for each multiprocessor of a large GPU; the parts are
stored in float32 and added in a fixed order. In large products a step is a box of pixels, which the
tensor memory accelerator fetches with 0 outside of an image, so that no thread tests a border.
Elsewhere it is pieces of rows, as long as few of their pixels lie past the end; one of a single row
is a box of dy, too. Channels are last, by a copy where that is worth it, as in 10.3.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

Pair = int | tuple[int, int]

# Multiplications from which on boxes, and a copy with channels last, save more time than they take.
LARGE = 2**26

# Two programs for each multiprocessor of a large GPU, and at least so many steps for each.
PROGRAMS = 264
LEAST_STEPS = 4


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
def conv2d_dweight_kernel(
    dy_ptr, dy_descriptor, x_ptr, partial_ptr,
    NP, P, Q, C, H, W, K,
    dy_channels, x_channels,
    stride_dn, stride_dk, stride_dp, stride_dq,
    stride_xn, stride_xc, stride_xh, stride_xw,
    stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w,
    share,
    TAPS: tl.constexpr, S: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_C: tl.constexpr, ROWS: tl.constexpr, BLOCK_Q: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_f, tiles_c = tl.cdiv(K, BLOCK_F), tl.cdiv(C, BLOCK_C)
    tap = pid // tiles_f // tiles_c % TAPS
    part = pid // tiles_f // tiles_c // TAPS
    offs_f = (pid % tiles_f).to(tl.int64) * BLOCK_F + tl.arange(0, BLOCK_F)
    offs_c = (pid // tiles_f % tiles_c).to(tl.int64) * BLOCK_C + tl.arange(0, BLOCK_C)
    # What the copies have beyond K and C is 0, and is not stored.
    mask_f, mask_c = offs_f < dy_channels, offs_c < x_channels
    dy_ptrs, x_ptrs = dy_ptr + offs_f * stride_dk, x_ptr + offs_c * stride_xc
    down = tap // S * dilation_h - padding_h
    right = tap % S * dilation_w - padding_w

    lanes = tl.arange(0, ROWS * BLOCK_Q)
    blocks_q = tl.cdiv(Q, BLOCK_Q)
    acc = tl.zeros((BLOCK_F, BLOCK_C), dtype=tl.float32)
    # Without it Triton 3.6 waits for each wgmma before it starts the next: see 07.5.
    tl.assume(share > 0)
    for step in range(part * share, (part + 1) * share):
        # A step has BLOCK_Q pixels of ROWS rows, which are numbered through all images. Steps of
        # the last share that lie past the last row are masked.
        q = step % blocks_q * BLOCK_Q + lanes % BLOCK_Q
        row = step // blocks_q * ROWS
        if ROWS > 1:
            row += lanes // BLOCK_Q
        n, p = tl.cast(row // P, tl.int64), row % P
        h, w = p * stride_h + down, q * stride_w + right
        pixel = (row < NP) & (q < Q)
        inside = pixel & (h >= 0) & (h < H) & (w >= 0) & (w < W)
        x_offs = n * stride_xn + tl.cast(h, tl.int64) * stride_xh + w.to(tl.int64) * stride_xw
        if dy_descriptor is None:
            dy_offs = n * stride_dn + tl.cast(p, tl.int64) * stride_dp + q.to(tl.int64) * stride_dq
            mask_dy = mask_f[:, None] & pixel[None, :]
            dy = tl.load(dy_ptrs[:, None] + dy_offs[None, :], mask=mask_dy, other=0.0)
        else:
            # 0 is what dy has past the end of a row, and past the last image.
            box = [row // P, p, step % blocks_q * BLOCK_Q, pid % tiles_f * BLOCK_F]
            dy = dy_descriptor.load(box).reshape(BLOCK_Q, BLOCK_F).T
        x = tl.load(
            x_ptrs[None, :] + x_offs[:, None], mask=inside[:, None] & mask_c[None, :], other=0.0
        )
        acc = tl.dot(dy, x, acc)

    rows = (part * TAPS + tap).to(tl.int64) * K + offs_f
    partial_ptrs = partial_ptr + rows[:, None] * C + offs_c[None, :]
    tl.store(partial_ptrs, acc, mask=(offs_f < K)[:, None] & (offs_c < C)[None, :])


@triton.jit
def boxes_kernel(
    dy_descriptor, x_descriptor, partial_ptr,
    boxes_p, boxes_q, C, K,
    padding_h, padding_w, dilation_h, dilation_w,
    share,
    TAPS: tl.constexpr, S: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_C: tl.constexpr,
    BOX_N: tl.constexpr, BOX_P: tl.constexpr, BOX_Q: tl.constexpr,
):  # fmt: skip
    """As conv2d_dweight_kernel; a step has BOX_N images, BOX_P rows and BOX_Q columns."""
    pid = tl.program_id(0)
    tiles_f, tiles_c = tl.cdiv(K, BLOCK_F), tl.cdiv(C, BLOCK_C)
    tap = pid // tiles_f // tiles_c % TAPS
    part = pid // tiles_f // tiles_c // TAPS
    f, c = pid % tiles_f * BLOCK_F, pid // tiles_f % tiles_c * BLOCK_C
    down = tap // S * dilation_h - padding_h
    right = tap % S * dilation_w - padding_w
    pixels: tl.constexpr = BOX_N * BOX_P * BOX_Q
    acc = tl.zeros((BLOCK_F, BLOCK_C), dtype=tl.float32)
    # Without it Triton 3.6 waits for each wgmma before it starts the next: see 07.5.
    tl.assume(share > 0)
    for step in range(share):
        # 0 is what x has outside of its image, and what both have past the last image.
        box = part * share + step
        n = box // boxes_q // boxes_p * BOX_N
        p, q = box // boxes_q % boxes_p * BOX_P, box % boxes_q * BOX_Q
        dy = dy_descriptor.load([n, p, q, f]).reshape(pixels, BLOCK_F)
        x = x_descriptor.load([n, p + down, q + right, c]).reshape(pixels, BLOCK_C)
        acc = tl.dot(dy.T, x, acc)

    offs_f, offs_c = f + tl.arange(0, BLOCK_F), c + tl.arange(0, BLOCK_C)
    rows = (part * TAPS + tap).to(tl.int64) * K + offs_f
    partial_ptrs = partial_ptr + rows[:, None] * C + offs_c[None, :]
    tl.store(partial_ptrs, acc, mask=(offs_f < K)[:, None] & (offs_c < C)[None, :])


@triton.jit
def add_parts_kernel(
    partial_ptr, dweight_ptr,
    KC, parts,
    TAPS: tl.constexpr, BLOCK_KC: tl.constexpr, BLOCK_T: tl.constexpr,
):  # fmt: skip
    tiles_t = tl.cdiv(TAPS, BLOCK_T)
    pid = tl.program_id(0)
    kc = (pid // tiles_t).to(tl.int64) * BLOCK_KC + tl.arange(0, BLOCK_KC)[:, None]
    tap = pid % tiles_t * BLOCK_T + tl.arange(0, BLOCK_T)[None, :]
    mask = (kc < KC) & (tap < TAPS)
    acc = tl.zeros((BLOCK_KC, BLOCK_T), dtype=tl.float32)
    # Always in this order, so that every run gives the same bits.
    for part in range(parts):
        rows = (part * TAPS + tap).to(tl.int64)
        acc += tl.load(partial_ptr + rows * KC + kc, mask=mask, other=0.0)
    tl.store(dweight_ptr + kc * TAPS + tap, acc, mask=mask)


def is_last(x: torch.Tensor, channels: int) -> bool:
    """Whether the channels of x lie side by side, in rows that begin at multiples of so many."""
    stride_n, stride_c, stride_h, stride_w = x.stride()
    steps = x.shape[1], stride_n, stride_h, stride_w
    begins = all(it > 0 and it % channels == 0 for it in steps)
    return stride_c == 1 and x.data_ptr() % 16 == 0 and begins


def channels_last(x: torch.Tensor) -> torch.Tensor:
    """A copy of x with its channels side by side in memory, and zeros up to a multiple of 16."""
    N, C, H, W = x.shape
    padded_c = triton.cdiv(C, 16) * 16
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


def box_that_fills(N: int, P: int, Q: int, pixels: int) -> tuple[int, int, int] | None:
    """Powers of 2 that divide N, P and Q and whose product is pixels: long rows if possible."""
    for i in range(pixels.bit_length()):
        for j in range(i + 1):
            BOX_N, BOX_P, BOX_Q = 2**j, 2 ** (i - j), pixels >> i
            if N % BOX_N == P % BOX_P == Q % BOX_Q == 0:
                return BOX_N, BOX_P, BOX_Q
    return None


def conv2d_dweight(
    dy: torch.Tensor,
    x: torch.Tensor,
    kernel_size: Pair,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
) -> torch.Tensor:
    if x.dim() != 4 or x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"x must be 4-D and float16, bfloat16 or float32, not {x.dtype} {tuple(x.shape)}"
        )
    N, C, H, W = x.shape
    R, S = pair("kernel_size", kernel_size, 1)
    stride_h, stride_w = pair("stride", stride, 1)
    padding_h, padding_w = pair("padding", padding, 0)
    dilation_h, dilation_w = pair("dilation", dilation, 1)
    P = (H + 2 * padding_h - dilation_h * (R - 1) - 1) // stride_h + 1
    Q = (W + 2 * padding_w - dilation_w * (S - 1) - 1) // stride_w + 1
    if min(P, Q) < 1:
        raise ValueError(f"kernel_size must fit in {(H, W)} with its padding, not {kernel_size}")
    if dy.dim() != 4 or dy.dtype != x.dtype or (dy.shape[0], *dy.shape[2:]) != (N, P, Q):
        raise ValueError(
            f"dy must be {x.dtype} ({N}, K, {P}, {Q}), not {dy.dtype} {tuple(dy.shape)}"
        )
    K = dy.shape[1]
    large = N * P * Q * K * C * R * S >= LARGE
    pixels = 128 // x.element_size()
    # Long pieces of rows cost the least arithmetic; few of their pixels may lie past the end.
    pieces = (pixels >> i for i in range(pixels.bit_length()))
    BLOCK_Q = next(it for it in pieces if triton.cdiv(Q, it) * it <= 1.25 * Q)
    ROWS = pixels // BLOCK_Q
    boxes = large and x.element_size() == 2 and has_tma(x.device)
    box = None
    if (
        boxes
        and stride_h == stride_w == 1
        and all(it.shape[1] >= 32 or is_last(it, 8) for it in (dy, x))
    ):
        box = box_that_fills(N, P, Q, pixels)
    if large:
        # A box needs pixels that begin at multiples of 16 bytes; pointers, of 16 channels.
        if K >= 32 and not is_last(dy, 8 if boxes and (box is not None or ROWS == 1) else 16):
            dy = channels_last(dy)
        if C >= 32 and not is_last(x, 8 if box is not None else 16):
            x = channels_last(x)
    # Where channels are last, both tiles go to shared memory 16 bytes at a time. Otherwise numbers
    # of 2 bytes go through registers, and beside a tile of 256 channels there are too few of them.
    widest = 256 if x.stride(1) == dy.stride(1) == 1 else 128
    BLOCK_F = max(16, min(triton.next_power_of_2(K), 128))
    BLOCK_C = max(16, min(triton.next_power_of_2(C), widest))
    if box is None:
        steps = triton.cdiv(N * P, ROWS) * triton.cdiv(Q, BLOCK_Q)
    else:
        steps = N * P * Q // pixels
    tiles = triton.cdiv(K, BLOCK_F) * triton.cdiv(C, BLOCK_C) * R * S
    # The largest tiles have a multiprocessor to themselves, of others two share one. Of the numbers
    # of parts with which the rounds of programs take the least time, the smallest.
    at_once = PROGRAMS // 2 if BLOCK_F * BLOCK_C > 2**14 else PROGRAMS
    counts = range(1, max(1, PROGRAMS // tiles) + 1)
    parts = min(counts, key=lambda count: triton.cdiv(tiles * count, at_once) / count)
    share = max(LEAST_STEPS, triton.cdiv(steps, parts))
    parts = triton.cdiv(steps, share)
    dweight = torch.empty((K, C, R, S), dtype=x.dtype, device=x.device)
    partial = torch.empty((parts, R * S, K, C), dtype=torch.float32, device=x.device)
    num_warps = 8 if BLOCK_F * BLOCK_C >= 2**14 else 4
    if box is not None:
        BOX_N, BOX_P, BOX_Q = box
        boxes_kernel[(tiles * parts,)](
            TensorDescriptor.from_tensor(dy.permute(0, 2, 3, 1), [*box, BLOCK_F]),
            TensorDescriptor.from_tensor(x.permute(0, 2, 3, 1), [*box, BLOCK_C]),
            partial, P // BOX_P, Q // BOX_Q, C, K,
            padding_h, padding_w, dilation_h, dilation_w, share,
            TAPS=R * S, S=S, BLOCK_F=BLOCK_F, BLOCK_C=BLOCK_C,
            BOX_N=BOX_N, BOX_P=BOX_P, BOX_Q=BOX_Q,
            num_warps=num_warps, num_stages=4,
        )  # fmt: skip
    else:
        dy_descriptor = None
        if boxes and ROWS == 1 and is_last(dy, 8):
            dy_last = dy.permute(0, 2, 3, 1)
            dy_descriptor = TensorDescriptor.from_tensor(dy_last, [1, 1, BLOCK_Q, BLOCK_F])
        conv2d_dweight_kernel[(tiles * parts,)](
            dy, dy_descriptor, x, partial, N * P, P, Q, C, H, W, K, dy.shape[1], x.shape[1],
            *dy.stride(), *x.stride(),
            stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w, share,
            TAPS=R * S, S=S, BLOCK_F=BLOCK_F, BLOCK_C=BLOCK_C, ROWS=ROWS, BLOCK_Q=BLOCK_Q,
            num_warps=8 if BLOCK_F * BLOCK_C > 2**14 else 4, num_stages=3,
        )  # fmt: skip
    BLOCK_T = min(triton.next_power_of_2(R * S), 16)
    grid = (triton.cdiv(K * C, 64) * triton.cdiv(R * S, BLOCK_T),)
    add_parts_kernel[grid](partial, dweight, K * C, parts, TAPS=R * S, BLOCK_KC=64, BLOCK_T=BLOCK_T)
    return dweight
