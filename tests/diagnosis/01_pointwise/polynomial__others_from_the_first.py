# fault: Horner's rule begins with the last coefficient and goes on with the first
# cause: the others are taken from the first one on
import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 1024}, num_warps=4),
        triton.Config({"BLOCK": 2048}, num_warps=4),
    ],
    key=["N"],
)
@triton.jit
def polynomial_kernel(x_ptr, y_ptr, N, COEFFICIENTS: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    y = tl.full((BLOCK,), COEFFICIENTS[len(COEFFICIENTS) - 1], tl.float32)
    for i in tl.static_range(len(COEFFICIENTS) - 1):
        y = y * x + COEFFICIENTS[i]
    tl.store(y_ptr + offs, y, mask=mask)


def polynomial(x, coefficients):
    y = torch.empty_like(x)
    N = x.numel()
    polynomial_kernel[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)](
        x, y, N, COEFFICIENTS=coefficients
    )
    return y
