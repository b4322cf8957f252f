# A scan of pairs by a function of its own: the sum, and how many were added.
import torch
import triton
import triton.language as tl


@triton.jit
def both(sum_a, count_a, sum_b, count_b):
    return sum_a + sum_b, count_a + count_b


@triton.jit
def cumsum_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N
    before = tl.zeros((), tl.float32)
    lanes = tl.arange(0, BLOCK)
    for start in range(0, N, BLOCK):
        mask = start + lanes < N
        x = tl.load(x_ptr + row + start + lanes, mask=mask, other=0).to(tl.float32)
        sums, _ = tl.associative_scan((x, mask.to(tl.int32)), 0, both)
        tl.store(y_ptr + row + start + lanes, sums + before, mask=mask)
        before += tl.sum(tl.where(lanes == BLOCK - 1, sums, 0.0))


class Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        cumsum_kernel[x.shape[:1]](x, y, x.shape[1], BLOCK=256)
        return y


def cumsum(x):
    return Scan.apply(x)
