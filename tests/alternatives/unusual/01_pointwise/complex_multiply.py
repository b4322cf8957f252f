# Real and imaginary parts are lanes of one block, and sums over pairs of them pick each out.
import torch
import triton
import triton.language as tl


@triton.jit
def complex_multiply_kernel(x_ptr, y_ptr, z_ptr, N, BLOCK: tl.constexpr):
    number = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    part = tl.arange(0, 2)[None, :]
    x = tl.load(x_ptr + 2 * number + part, mask=number < N)
    y = tl.load(y_ptr + 2 * number + part, mask=number < N)
    real = tl.sum(tl.where(part == 0, x, 0.0), 1)[:, None]
    imaginary = tl.sum(tl.where(part == 1, x, 0.0), 1)[:, None]
    turned = tl.flip(y, 1) * tl.where(part == 0, -1.0, 1.0)
    tl.store(z_ptr + 2 * number + part, real * y + imaginary * turned, mask=number < N)


class Multiply:
    grid = staticmethod(lambda N: (triton.cdiv(N, 256), 1, 1))

    def __call__(self, x, y):
        z = torch.empty_strided(x.shape, (1,), dtype=x.dtype, device=x.device)
        x, y, floats = (torch.view_as_real(it) for it in (x, y, z))
        complex_multiply_kernel[self.grid(z.numel())](x, y, floats, z.numel(), BLOCK=256)
        return z


complex_multiply = Multiply()
