# Programs take rows from a counter, so that none waits for a slower one.
import torch
import triton
import triton.language as tl


def multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def persistent_softmax_kernel(x_ptr, y_ptr, next_ptr, M, N, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    row = tl.atomic_add(next_ptr, 1)
    while row < M:
        x = tl.load(x_ptr + row.to(tl.int64) * N + cols, mask=cols < N, other=float("-inf"))
        e = tl.exp(x.to(tl.float32) - tl.max(x.to(tl.float32)))
        tl.store(y_ptr + row.to(tl.int64) * N + cols, e / tl.sum(e), mask=cols < N)
        row = tl.atomic_add(next_ptr, 1)


def persistent_softmax(x):
    y, counter = torch.empty_like(x), torch.zeros((), dtype=torch.int32, device=x.device)
    programs = min(x.shape[0], multiprocessors(x.device))
    persistent_softmax_kernel[(programs,)](
        x, y, counter, *x.shape, BLOCK=triton.next_power_of_2(x.shape[1])
    )
    return y
