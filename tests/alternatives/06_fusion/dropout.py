"""06.3  Dropout: what is dropped is not even loaded."""

import torch
import triton
import triton.language as tl


@triton.jit
def dropout_kernel(
    x_ptr, y_ptr,
    size_0, size_1, size_2, size_3,
    stride_x0, stride_x1, stride_x2, stride_x3,
    p, scale, seed,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    blocks_c = tl.cdiv(size_3, BLOCK_C)
    pid = tl.program_id(0)
    row = (pid // blocks_c).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    i3 = (pid % blocks_c).to(tl.int64) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    i2 = row % size_2
    i1 = row // size_2 % size_1
    i0 = row // (size_2 * size_1)
    mask = (i0 < size_0) & (i3 < size_3)
    number = row * size_3 + i3
    keep = tl.rand(seed, number) > p
    x_ptrs = x_ptr + i0 * stride_x0 + i1 * stride_x1 + i2 * stride_x2 + i3 * stride_x3
    x = tl.load(x_ptrs, mask=mask & keep, other=0.0).to(tl.float32)
    tl.store(y_ptr + number, x * scale, mask=mask)


def dropout(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    if x.dim() > 4 or x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError("x must be float16, bfloat16 or float32 with at most 4 dimensions")
    if not 0 <= p <= 1:
        raise ValueError("p must be a probability")
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    missing = 4 - x.dim()
    sizes = (*[1] * missing, *x.shape)
    strides = (*[0] * missing, *x.stride())
    BLOCK_C = min(triton.next_power_of_2(sizes[3]), 512)
    BLOCK_R = 1024 // BLOCK_C
    rows = sizes[0] * sizes[1] * sizes[2]
    scale = 1 / (1 - p) if p < 1 else 0.0
    dropout_kernel[(triton.cdiv(rows, BLOCK_R) * triton.cdiv(sizes[3], BLOCK_C),)](
        x, y, *sizes, *strides, float(p), scale, seed, BLOCK_R=BLOCK_R, BLOCK_C=BLOCK_C
    )
    return y
