# fault: the first row is pid_m * BLOCK_N, the first column pid_n * BLOCK_M
# cause: goes on into it
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def descriptor_matmul_kernel(
    a_desc, b_desc, c_desc,
    M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    for tile in range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
        first_m = tile // (GROUP_M * tiles_n) * GROUP_M
        height = tl.minimum(tiles_m - first_m, GROUP_M)
        pid_m = first_m + tile % (GROUP_M * tiles_n) % height
        pid_n = tile % (GROUP_M * tiles_n) // height
        row = pid_m * BLOCK_N
        col = pid_n * BLOCK_M
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            a = a_desc.load([row, k])
            b = b_desc.load([k, col])
            acc = tl.dot(a, b, acc)
        c_desc.store([row, col], acc.to(c_desc.dtype))


def descriptor_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    BLOCK_M, BLOCK_N, BLOCK_K = 128, 64, 32
    a_desc = TensorDescriptor.from_tensor(a, [BLOCK_M, BLOCK_K])
    b_desc = TensorDescriptor.from_tensor(b, [BLOCK_K, BLOCK_N])
    c_desc = TensorDescriptor.from_tensor(c, [BLOCK_M, BLOCK_N])
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    programs = min(multiprocessors(a.device), tiles)
    descriptor_matmul_kernel[(programs,)](
        a_desc, b_desc, c_desc, M, N, K,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=8,
    )  # fmt: skip
    return c
