"""01.8  Complex multiplication: one good answer.

A number is a pair in memory, so one load takes a tile of [BLOCK, 2], and tl.split takes it apart in
registers. Neighbouring lanes stay on neighbouring addresses, where a load of the real parts alone
would use half of each sector. Strides of up to four dimensions are arguments, and contiguous
tensors are flattened first, for which the compiler drops the arithmetic on indices.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def complex_multiply_kernel(
    x_ptr, y_ptr, z_ptr,
    N, size_1, size_2, size_3,
    stride_x0, stride_x1, stride_x2, stride_x3,
    stride_y0, stride_y1, stride_y2, stride_y3,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    offs = (pid * BLOCK + tl.arange(0, BLOCK))[:, None]  # [BLOCK, 1]
    part = tl.arange(0, 2)[None, :]  # real, imaginary
    mask = offs < N
    i3 = offs % size_3
    i2 = offs // size_3 % size_2
    i1 = offs // (size_3 * size_2) % size_1
    i0 = offs // (size_3 * size_2 * size_1)
    x_offs = i0 * stride_x0 + i1 * stride_x1 + i2 * stride_x2 + i3 * stride_x3
    y_offs = i0 * stride_y0 + i1 * stride_y1 + i2 * stride_y2 + i3 * stride_y3
    # One load of [BLOCK, 2] keeps neighbouring lanes on neighbouring addresses.
    a, b = tl.split(tl.load(x_ptr + 2 * x_offs + part, mask=mask))
    c, d = tl.split(tl.load(y_ptr + 2 * y_offs + part, mask=mask))
    z = tl.join(a * c - b * d, a * d + b * c)  # [BLOCK, 2]
    tl.store(z_ptr + 2 * offs + part, z, mask=mask)


def complex_multiply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if x.dtype != torch.complex64 or x.dim() > 4:
        raise ValueError(
            f"x must be complex64 with at most 4 dimensions, not {x.dtype} {tuple(x.shape)}"
        )
    if y.shape != x.shape or y.dtype != x.dtype:
        raise ValueError(
            f"y must be {x.dtype} {tuple(x.shape)} like x, not {y.dtype} {tuple(y.shape)}"
        )
    z = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    N = z.numel()
    if x.is_contiguous() and y.is_contiguous():
        x, y = x.view(-1), y.view(-1)
    missing = 4 - x.dim()
    sizes = (*x.shape, *[1] * missing)
    strides = [(*tensor.stride(), *[0] * missing) for tensor in (x, y)]
    x, y, pairs = torch.view_as_real(x), torch.view_as_real(y), torch.view_as_real(z)
    BLOCK = 1024
    complex_multiply_kernel[(triton.cdiv(N, BLOCK),)](
        x, y, pairs, N, *sizes[1:], *strides[0], *strides[1], BLOCK=BLOCK
    )
    return z
