# fault: masked lanes count as 1 in the maximum
# cause: masked lanes|other
import torch
import triton
import triton.language as tl


@triton.jit
def quantize_rows_kernel(
    x_ptr, q_ptr, scale_ptr, N, stride_xm, stride_xn, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < N
    x = tl.load(x_ptr + row * stride_xm + cols * stride_xn, mask=mask, other=1.0)
    x = x.to(tl.float32)
    absmax = tl.max(tl.abs(x), axis=0)
    scale = absmax / 127.0
    scale = tl.where(scale == 0.0, 1.0, scale)
    q = tl.floor(x / scale + 0.5).to(tl.int8)
    tl.store(q_ptr + row * N + cols, q, mask=mask)
    tl.store(scale_ptr + row, scale)


def quantize_rows(x):
    M, N = x.shape
    q = torch.empty((M, N), dtype=torch.int8, device=x.device)
    scale = torch.empty((M,), dtype=torch.float32, device=x.device)
    BLOCK_SIZE = triton.next_power_of_2(N)
    num_warps = 4 if BLOCK_SIZE <= 2048 else 8
    quantize_rows_kernel[(M,)](
        x, q, scale, N, x.stride(0), x.stride(1), BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps
    )
    return q, scale
