"""01.5  Fused multiply-add: one good answer.

Numbers of 16 bits are converted to float32 before tl.fma, so that only the store rounds. Strides of
up to four dimensions are arguments. Contiguous tensors are flattened first: the other sizes are
then 1, which Triton compiles as constants, and the divisions vanish. Blocks that are whole have no
mask, so that their loads are vectors whatever N is.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def store_fma(x_ptrs, y_ptrs, z_ptrs, w_ptrs, mask):
    x = tl.load(x_ptrs, mask=mask).to(tl.float32)
    y = tl.load(y_ptrs, mask=mask).to(tl.float32)
    z = tl.load(z_ptrs, mask=mask).to(tl.float32)
    tl.store(w_ptrs, tl.fma(x, y, z), mask=mask)


@triton.jit
def fused_multiply_add_kernel(
    x_ptr, y_ptr, z_ptr, w_ptr,
    N, size_1, size_2, size_3,
    stride_x0, stride_x1, stride_x2, stride_x3,
    stride_y0, stride_y1, stride_y2, stride_y3,
    stride_z0, stride_z1, stride_z2, stride_z3,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    offs = pid * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    # Triton compiles an argument that is 1 as a constant. Where all three sizes are 1, as for
    # contiguous tensors, the divisions vanish and i0 is offs.
    i3 = offs % size_3
    i2 = offs // size_3 % size_2
    i1 = offs // (size_3 * size_2) % size_1
    i0 = offs // (size_3 * size_2 * size_1)
    x_ptrs = x_ptr + i0 * stride_x0 + i1 * stride_x1 + i2 * stride_x2 + i3 * stride_x3
    y_ptrs = y_ptr + i0 * stride_y0 + i1 * stride_y1 + i2 * stride_y2 + i3 * stride_y3
    z_ptrs = z_ptr + i0 * stride_z0 + i1 * stride_z1 + i2 * stride_z2 + i3 * stride_z3
    # Whole blocks have no mask: with one that may end anywhere, each element is a load of its own.
    if (pid + 1) * BLOCK <= N:
        store_fma(x_ptrs, y_ptrs, z_ptrs, w_ptr + offs, None)
    else:
        store_fma(x_ptrs, y_ptrs, z_ptrs, w_ptr + offs, offs < N)


def fused_multiply_add(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    if x.dim() > 4:
        raise ValueError(f"x must have at most 4 dimensions, not {x.dim()}")
    for name, other in (("y", y), ("z", z)):
        if other.shape != x.shape or other.dtype != x.dtype:
            raise ValueError(
                f"{name} must be {x.dtype} {tuple(x.shape)} like x, "
                f"not {other.dtype} {tuple(other.shape)}"
            )
    w = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    inputs = (x, y, z)
    if all(tensor.is_contiguous() for tensor in inputs):
        inputs = [tensor.view(-1) for tensor in inputs]
    missing = 4 - inputs[0].dim()
    sizes = (*inputs[0].shape, *[1] * missing)
    strides = [(*tensor.stride(), *[0] * missing) for tensor in inputs]
    N = w.numel()
    BLOCK = 1024
    fused_multiply_add_kernel[(triton.cdiv(N, BLOCK),)](
        *inputs, w, N, *sizes[1:], *strides[0], *strides[1], *strides[2], BLOCK=BLOCK
    )
    return w
