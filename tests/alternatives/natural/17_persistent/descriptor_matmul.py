# Row-major order and square tiles of one size, for all products and dtypes.

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
    BLOCK: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, BLOCK)
    num_tiles = tl.cdiv(M, BLOCK) * tiles_n
    for tile in tl.range(tl.program_id(0), num_tiles, tl.num_programs(0)):
        m, n = tile // tiles_n * BLOCK, tile % tiles_n * BLOCK
        acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
        for step in range(tl.cdiv(K, BLOCK_K)):
            a = a_desc.load([m, step * BLOCK_K])
            b = b_desc.load([step * BLOCK_K, n])
            acc += tl.dot(a, b)
        c_desc.store([m, n], acc.to(c_desc.dtype))


def descriptor_matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    BLOCK, BLOCK_K = 128, 32
    tiles = triton.cdiv(M, BLOCK) * triton.cdiv(N, BLOCK)
    descriptor_matmul_kernel[(min(tiles, multiprocessors(a.device)),)](
        TensorDescriptor.from_tensor(a, [BLOCK, BLOCK_K]),
        TensorDescriptor.from_tensor(b, [BLOCK_K, BLOCK]),
        TensorDescriptor.from_tensor(c, [BLOCK, BLOCK]),
        M, N, K, BLOCK=BLOCK, BLOCK_K=BLOCK_K, num_warps=8,
    )  # fmt: skip
    return c
