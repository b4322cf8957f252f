# fault: the pointers of the store are transposed, and its mask has the limits swapped instead
# cause: the mask must be too, as in tl.trans\(mask\)
# never: is taken for its first row
import torch
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(
    x_ptr, y_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    rows = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    cols = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    mask = (rows < M) & (cols < N)
    x = tl.load(x_ptr + rows * stride_xm + cols * stride_xn, mask=mask)
    mask = (rows < N) & (cols < M)
    tl.store(y_ptr + tl.trans(cols * M + rows), tl.trans(x), mask=mask)


def transpose(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty((N, M), dtype=x.dtype, device=x.device)
    BLOCK_M, BLOCK_N = 32, 32
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    transpose_kernel[grid](x, y, M, N, x.stride(0), x.stride(1), BLOCK_M, BLOCK_N)
    return y
