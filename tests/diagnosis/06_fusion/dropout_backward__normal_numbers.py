# fault: tl.randn in place of tl.rand: normal numbers, not uniform ones
# cause: normal|randn
# missed: nothing but where the result is wrong: vague
import torch
import triton
import triton.language as tl


@triton.jit
def dropout_backward_kernel(dy_ptr, dx_ptr, N, p, seed, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    factor = (tl.randn(seed, offs) > p).to(tl.float32) / (1 - p)
    dy = tl.load(dy_ptr + offs, mask=mask).to(tl.float32)
    tl.store(dx_ptr + offs, dy * factor, mask=mask)


def dropout_backward(dy: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    dx = torch.empty_like(dy)
    N = dy.numel()
    grid = lambda meta: (triton.cdiv(N, meta["BLOCK"]),)  # noqa: E731
    dropout_backward_kernel[grid](dy, dx, N, p, seed, BLOCK=2048, num_warps=8)
    return dx
