# All heads and batches are one list of rows, and the sum is a reduction of its own.
import torch
import triton
import triton.language as tl


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def attention_delta_kernel(x_ptr, y_ptr, delta_ptr, rows, D: tl.constexpr, ROWS: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * ROWS * D + tl.arange(0, ROWS * D)
    x = tl.load(x_ptr + offs, mask=offs < rows * D, other=0).to(tl.float32)
    y = tl.load(y_ptr + offs, mask=offs < rows * D, other=0).to(tl.float32)
    products = tl.reshape(x * y, (ROWS, D))
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    tl.store(delta_ptr + row, tl.reduce(products, 1, plus), mask=row < rows)


attention_delta = type(
    "Delta",
    (),
    {
        "__call__": lambda self, out, dout: self.launched(
            out, dout, torch.empty(out.shape[:3], dtype=torch.float32, device=out.device)
        ),
        "launched": staticmethod(
            lambda out, dout, delta: (
                attention_delta_kernel[(triton.cdiv(delta.numel(), 16),)](
                    out, dout, delta, delta.numel(), D=out.shape[3], ROWS=16
                ),
                delta,
            )[1]
        ),
    },
)()
