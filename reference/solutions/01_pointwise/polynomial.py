"""01.7  Polynomial: one good answer.

Horner's scheme takes one multiplication and one addition for each degree, where summing powers
takes two multiplications. The coefficients are constants of the compiled kernel, so that none is
loaded. Strided tensors of up to four dimensions are read in place. Blocks that are whole have no
mask, so that their loads are vectors whatever N is.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def store_polynomial(
    x_ptrs, y_ptrs, mask,
    COEFFICIENTS: tl.constexpr,
):  # fmt: skip
    x = tl.load(x_ptrs, mask=mask).to(tl.float32)
    degree: tl.constexpr = len(COEFFICIENTS) - 1
    y = tl.zeros_like(x) + COEFFICIENTS[degree]
    for power in tl.static_range(1, degree + 1):
        y = y * x + COEFFICIENTS[degree - power]
    tl.store(y_ptrs, y, mask=mask)


@triton.jit
def polynomial_kernel(
    x_ptr, y_ptr,
    N, size_1, size_2, size_3,
    stride_x0, stride_x1, stride_x2, stride_x3,
    COEFFICIENTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    offs = pid * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    i3 = offs % size_3
    i2 = offs // size_3 % size_2
    i1 = offs // (size_3 * size_2) % size_1
    i0 = offs // (size_3 * size_2 * size_1)
    x_ptrs = x_ptr + i0 * stride_x0 + i1 * stride_x1 + i2 * stride_x2 + i3 * stride_x3
    # Whole blocks have no mask: with one that may end anywhere, each element is a load of its own.
    if (pid + 1) * BLOCK <= N:
        store_polynomial(x_ptrs, y_ptr + offs, None, COEFFICIENTS)
    else:
        store_polynomial(x_ptrs, y_ptr + offs, offs < N, COEFFICIENTS)


def polynomial(x: torch.Tensor, coefficients: tuple[float, ...]) -> torch.Tensor:
    if x.dim() > 4 or not x.is_floating_point():
        raise ValueError(
            f"x must be floating point with at most 4 dimensions, not {x.dtype} {tuple(x.shape)}"
        )
    if not 1 <= len(coefficients) <= 8:
        raise ValueError(f"coefficients must be 1 to 8 numbers, not {len(coefficients)}")
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.is_contiguous():
        x = x.view(-1)
    missing = 4 - x.dim()
    sizes = (*x.shape, *[1] * missing)
    strides = (*x.stride(), *[0] * missing)
    N = y.numel()
    BLOCK = 1024
    polynomial_kernel[(triton.cdiv(N, BLOCK),)](
        x, y, N, *sizes[1:], *strides, COEFFICIENTS=coefficients, BLOCK=BLOCK
    )
    return y
