"""17.3  Descriptor matmul: one good answer.

A transposed factor is described as it lies in memory, and its tile is turned after the load, so
that no copy is made. Small products get tiles of 64 x 64, or some programs would have none. The
loops are flattened into one, so that the next tile's loads begin while this one is stored. c waits
in shared memory until it is stored: half of the columns at a time leaves a fourth stage there.
"""

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
    A_IS_TURNED: tl.constexpr, B_IS_TURNED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        first_m = tile // (GROUP_M * tiles_n) * GROUP_M
        rows = min(tiles_m - first_m, GROUP_M)
        place = tile % (GROUP_M * tiles_n)
        m = (first_m + place % rows) * BLOCK_M
        n = place // rows * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            a = a_desc.load([k, m]).T if A_IS_TURNED else a_desc.load([m, k])
            b = b_desc.load([n, k]).T if B_IS_TURNED else b_desc.load([k, n])
            acc = tl.dot(a, b, acc)
        halves = acc.to(c_desc.dtype).reshape(BLOCK_M, 2, BLOCK_N // 2).permute(0, 2, 1)
        left, right = halves.split()
        c_desc.store([m, n], left)
        c_desc.store([m, n + BLOCK_N // 2], right)


def shared_memory(device: torch.device) -> int:
    """How many bytes of shared memory a program can have; an H100's in the interpreter."""
    if device.type != "cuda":
        return 227 * 1024
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


def is_addressable(x: torch.Tensor) -> bool:
    """Whether TMA can fetch tiles of x."""
    pitch = x.stride(0) * x.element_size()
    aligned = pitch % 16 == 0 and x.data_ptr() % 16 == 0
    return aligned and x.stride(1) == 1 and x.stride(0) >= x.shape[1]


def describe(x: torch.Tensor, rows: int, columns: int) -> tuple[TensorDescriptor, bool]:
    """A descriptor for tiles of (rows, columns) of x, or of x.T, and whether it is of x.T."""
    if is_addressable(x):
        return TensorDescriptor.from_tensor(x, [rows, columns]), False
    return TensorDescriptor.from_tensor(x.T, [columns, rows]), True


def descriptor_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dim() != 2 or a.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"a must be 2-D and float16, bfloat16 or float32, not {a.dtype} {tuple(a.shape)}"
        )
    M, K = a.shape
    if b.dim() != 2 or b.shape[0] != K or b.dtype != a.dtype:
        raise ValueError(f"b must be {a.dtype} ({K}, N), not {b.dtype} {tuple(b.shape)}")
    N = b.shape[1]
    for name, x in (("a", a), ("b", b)):
        if not is_addressable(x) and not is_addressable(x.T):
            raise ValueError(
                f"{name} must have contiguous rows or columns, aligned to 16 bytes: its strides "
                f"are {x.stride()} elements of {x.element_size()} bytes"
            )
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    if not is_addressable(c):
        raise ValueError(f"b must have so many columns that 16 divides the bytes of a row, not {N}")
    # Half a tile of c waits in shared memory too until it is stored, beside those of a and b.
    BLOCK_M, BLOCK_N, num_warps = 128, 512 // a.element_size(), 8
    if shared_memory(a.device) < 2**17:  # as an RTX 5090 has, which has TMA too
        BLOCK_N //= 2
    # Small products need small tiles: otherwise there are too few to give each program one.
    if max(M, N) <= 1024:
        BLOCK_M, BLOCK_N, num_warps = 64, 64, 4
    BLOCK_K = 128 // a.element_size()  # 128 bytes: a whole line of the cache
    a_desc, a_is_turned = describe(a, BLOCK_M, BLOCK_K)
    b_desc, b_is_turned = describe(b, BLOCK_K, BLOCK_N)
    num_stages = 4 if shared_memory(a.device) >= 225 * 1024 else 3
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    descriptor_matmul_kernel[(min(tiles, multiprocessors(a.device)),)](
        a_desc, b_desc, TensorDescriptor.from_tensor(c, [BLOCK_M, BLOCK_N // 2]), M, N, K,
        A_IS_TURNED=a_is_turned, B_IS_TURNED=b_is_turned,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=16,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c
