# fault: tl.rand4x draws four numbers a counter, and the spec asks for one
# cause: each counter gives four elements their numbers
import torch
import triton
import triton.language as tl


@triton.jit
def dropout_kernel(
    x_ptr, y_ptr,
    N,
    p, keep_share, seed,
    BLOCK: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(0) * BLOCK
    offs = start + tl.arange(0, BLOCK)
    mask = offs < N
    x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)

    # One call of Philox makes four numbers: use all of them.
    quads = start // 4 + tl.arange(0, BLOCK // 4)
    r0, r1, r2, r3 = tl.rand4x(seed, quads)
    u = tl.interleave(tl.interleave(r0, r2), tl.interleave(r1, r3))

    y = tl.where(u > p, x / keep_share, 0.0)
    tl.store(y_ptr + offs, y, mask=mask)


def dropout(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    y = torch.empty_like(x)
    N = x.numel()
    BLOCK = 2048
    dropout_kernel[(triton.cdiv(N, BLOCK),)](x, y, N, p, 1 - p, seed, BLOCK=BLOCK)
    return y
