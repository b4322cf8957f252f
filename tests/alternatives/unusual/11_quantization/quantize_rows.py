# Rounded by adding and taking away 1.5 * 2**23, where neighbours are 1 apart; two rows a program.
import torch
import triton
import triton.language as tl


@triton.jit
def quantize_rows_kernel(x_ptr, q_ptr, scale_ptr, M, N, strides, BLOCK: tl.constexpr):
    row = (tl.program_id(0) * 2 + tl.arange(0, 2))[:, None]
    col = tl.arange(0, BLOCK)[None, :]
    mask = (row < M) & (col < N)
    x = tl.load(x_ptr + row * strides[0] + col * strides[1], mask=mask, other=0).to(tl.float32)
    scale = tl.max(tl.maximum(x, -x), 1, keep_dims=True) / 127
    scale += (scale == 0).to(tl.float32)
    rounded = (x / scale + 12582912.0) - 12582912.0
    tl.store(q_ptr + row * N + col, rounded.to(tl.int8), mask=mask)
    tl.store(scale_ptr + row, scale, mask=row < M)


@torch.inference_mode()
def quantize_rows(x):
    M, N = x.shape
    q, scale = (torch.empty(s, dtype=d, device=x.device) for s, d in outputs(M, N))
    quantize_rows_kernel[(triton.cdiv(M, 2),)](
        x, q, scale, M, N, x.stride(), BLOCK=triton.next_power_of_2(N)
    )
    return q, scale


def outputs(M, N):
    yield (M, N), torch.int8
    yield (M,), torch.float32
