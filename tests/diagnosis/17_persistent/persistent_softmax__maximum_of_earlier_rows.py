# fault: the maximum is carried from row to row
# cause: (carried|earlier|previous|before|another).*(row|tile)|maximum.*(reset|anew)
# missed: 0 / 0, as more than the largest value is subtracted: vague
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
    largest = float("-inf")
    for row in tl.range(tl.program_id(0), M, tl.num_programs(0), num_stages=3):
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
        largest = tl.maximum(largest, tl.max(x, axis=0))
        numerator = tl.exp(x - largest)
        y = numerator / tl.sum(numerator, axis=0)
        tl.store(y_ptr + row * N + cols, y, mask=cols < N)


def persistent_softmax(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_N = triton.next_power_of_2(N)
    grid = (min(M, multiprocessors(x.device)),)
    persistent_softmax_kernel[grid](x, y, M, N, BLOCK_N=BLOCK_N, num_warps=8)
    return y
