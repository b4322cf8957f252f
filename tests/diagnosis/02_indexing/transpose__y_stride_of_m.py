# fault: the strides of y are passed in the wrong order
# cause: stride.*swapped|swapped.*stride|wrong stride
import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": 32}, num_warps=4), triton.Config({"BLOCK": 64}, num_warps=8)],
    key=["M", "N"],
)
@triton.jit
def transpose_kernel(
    x_ptr, y_ptr, M, N, stride_xm, stride_xn, stride_yn, stride_ym, BLOCK: tl.constexpr
):
    offs_m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offs_n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask_m = offs_m < M
    mask_n = offs_n < N
    x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_n[None, :] * stride_xn
    x = tl.load(x_ptrs, mask=mask_m[:, None] & mask_n[None, :])
    y_ptrs = y_ptr + offs_n[:, None] * stride_yn + offs_m[None, :] * stride_ym
    tl.store(y_ptrs, tl.permute(x, (1, 0)), mask=mask_n[:, None] & mask_m[None, :])


def transpose(x):
    M, N = x.shape
    y = torch.empty((N, M), dtype=x.dtype, device=x.device)
    transpose_kernel[lambda meta: (triton.cdiv(M, meta["BLOCK"]), triton.cdiv(N, meta["BLOCK"]))](
        x, y, M, N, x.stride(0), x.stride(1), y.stride(1), y.stride(0)
    )
    return y
