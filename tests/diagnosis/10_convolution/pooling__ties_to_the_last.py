# fault: an equal element replaces the first
# cause: last one wins|ties|>=
import torch
import triton
import triton.language as tl


@triton.jit
def max_pool2d_kernel(
    x_ptr, out_ptr, indices_ptr,
    C, H, W, P, Q,
    stride_xn, stride_xc, stride_xh, stride_xw,
    STRIDE: tl.constexpr, PADDING: tl.constexpr, KERNEL: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    p, c, n = row % P, row // P % C, row // P // C
    q = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    index = tl.zeros((BLOCK,), dtype=tl.int32)
    for r in tl.static_range(KERNEL):
        for s in tl.static_range(KERNEL):
            h = p * STRIDE - PADDING + r
            w = q * STRIDE - PADDING + s
            mask = (q < Q) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
            ptrs = x_ptr + n * stride_xn + c * stride_xc + h * stride_xh + w * stride_xw
            x = tl.load(ptrs, mask=mask, other=float("-inf")).to(tl.float32)
            index = tl.where(mask & (x >= best), h * W + w, index)
            best = tl.maximum(x, best)
    tl.store(out_ptr + row * Q + q, best, mask=q < Q)
    tl.store(indices_ptr + row * Q + q, index, mask=q < Q)


def max_pool2d(x, kernel_size, stride=None, padding=0):
    N, C, H, W = x.shape
    stride = stride or kernel_size
    P = (H + 2 * padding - kernel_size) // stride + 1
    Q = (W + 2 * padding - kernel_size) // stride + 1
    out = torch.empty((N, C, P, Q), dtype=x.dtype, device=x.device)
    indices = torch.empty((N, C, P, Q), dtype=torch.int64, device=x.device)
    BLOCK = min(triton.next_power_of_2(Q), 128)
    max_pool2d_kernel[(N * C * P, triton.cdiv(Q, BLOCK))](
        x, out, indices, C, H, W, P, Q, *x.stride(),
        STRIDE=stride, PADDING=padding, KERNEL=kernel_size, BLOCK=BLOCK, num_warps=2,
    )  # fmt: skip
    return out, indices
