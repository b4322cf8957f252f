# fault: the last pixels of a share run on into the next one
# cause: size \d+ in dimension 0
import torch
import triton
import triton.language as tl


@triton.jit
def conv2d_dweight_kernel(
    dy_ptr, x_ptr, partial_ptr,
    pixels, P, Q, C, H, W, K,
    stride_dn, stride_dk, stride_dp, stride_dq,
    stride_xn, stride_xc, stride_xh, stride_xw,
    stride, padding, dilation, share,
    S: tl.constexpr, TAPS: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    tap, part = tl.program_id(1) % TAPS, tl.program_id(1) // TAPS
    r, s = tap // S, tap % S
    tiles_c = tl.cdiv(C, BLOCK_C)
    offs_f = tl.program_id(0) // tiles_c * BLOCK_F + tl.arange(0, BLOCK_F)
    offs_c = tl.program_id(0) % tiles_c * BLOCK_C + tl.arange(0, BLOCK_C)
    acc = tl.zeros((BLOCK_F, BLOCK_C), dtype=tl.float32)
    end = (part + 1) * share
    for start in range(part * share, end, BLOCK_M):
        m = start + tl.arange(0, BLOCK_M)
        n, p, q = m // (P * Q), m // Q % P, m % Q
        h, w = p * stride - padding + r * dilation, q * stride - padding + s * dilation
        dy_offs = n * stride_dn + p * stride_dp + q * stride_dq
        dy_ptrs = dy_ptr + dy_offs[:, None] + offs_f[None, :] * stride_dk
        dy = tl.load(dy_ptrs, mask=(m < end)[:, None] & (offs_f < K)[None, :], other=0.0)
        x_offs = n * stride_xn + h * stride_xh + w * stride_xw
        x_ptrs = x_ptr + x_offs[:, None] + offs_c[None, :] * stride_xc
        inside = (m < end) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
        x = tl.load(x_ptrs, mask=inside[:, None] & (offs_c < C)[None, :], other=0.0)
        acc = tl.dot(tl.trans(dy), x, acc)
    rows = (part * K + offs_f)[:, None] * C + offs_c[None, :]
    mask = (offs_f < K)[:, None] & (offs_c < C)[None, :]
    tl.store(partial_ptr + rows * TAPS + tap, acc, mask=mask)


@triton.jit
def add_parts_kernel(
    partial_ptr, dweight_ptr,
    numel, parts,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(parts):
        acc += tl.load(partial_ptr + part * numel + offs, mask=offs < numel, other=0.0)
    tl.store(dweight_ptr + offs, acc, mask=offs < numel)


def conv2d_dweight(dy, x, kernel_size, stride=1, padding=0, dilation=1):
    (N, C, H, W), (_, K, P, Q) = x.shape, dy.shape
    pixels, R, S = N * P * Q, kernel_size, kernel_size
    share = max(256, triton.cdiv(pixels, 16 * 64) * 64)
    parts = triton.cdiv(pixels, share)
    dweight = torch.empty((K, C, R, S), dtype=x.dtype, device=x.device)
    partial = torch.empty((parts, K, C, R, S), dtype=torch.float32, device=x.device)
    BLOCK_F = max(16, min(triton.next_power_of_2(K), 128))
    BLOCK_C = max(16, min(triton.next_power_of_2(C), 128))
    grid = (triton.cdiv(K, BLOCK_F) * triton.cdiv(C, BLOCK_C), R * S * parts)
    conv2d_dweight_kernel[grid](
        dy, x, partial, pixels, P, Q, C, H, W, K, *dy.stride(), *x.stride(),
        stride, padding, dilation, share, S=S, TAPS=R * S,
        BLOCK_F=BLOCK_F, BLOCK_C=BLOCK_C, BLOCK_M=32, num_warps=8,
    )  # fmt: skip
    numel = dweight.numel()
    add_parts_kernel[(triton.cdiv(numel, 1024),)](partial, dweight, numel, parts, BLOCK=1024)
    return dweight
