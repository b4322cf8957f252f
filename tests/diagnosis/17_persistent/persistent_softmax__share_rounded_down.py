# fault: each program takes M // programs rows, and the remainder is nobody's
# cause: loop over tiles, in steps of tl.num_programs
import torch
import triton
import triton.language as tl


def multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def persistent_softmax_kernel(x_ptr, y_ptr, M, N, BLOCK_N: tl.constexpr):
    cols = tl.arange(0, BLOCK_N)
    share = M // tl.num_programs(0)
    begin = tl.program_id(0) * share
    for row in range(begin, begin + share):
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
        numerator = tl.exp(x - tl.max(x, axis=0))
        y = numerator / tl.sum(numerator, axis=0)
        tl.store(y_ptr + row * N + cols, y, mask=cols < N)


def persistent_softmax(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_N = triton.next_power_of_2(N)
    grid = (min(M, multiprocessors(x.device)),)
    persistent_softmax_kernel[grid](x, y, M, N, BLOCK_N=BLOCK_N, num_warps=8)
    return y
