"""17.3  Descriptor matmul

Persistent matmul whose tiles are fetched and stored by hardware, from a description of the matrix.

    c[m, n] = sum_k a[m, k] * b[k, n]          PyTorch: a @ b
    source: "Persistent Matmul" in Triton's own tutorials

Given     a (M, K) and b (K, N): float16, bfloat16 or float32, both of one dtype, contiguous,
          K and N multiples of 8, M of any size: TMA, the hardware, asks for rows of whole 16 bytes
Return    c (M, N): dtype of a, contiguous, summed in float32 (float32 factors may round to tf32)
New here  triton.tools.tensor_descriptor.TensorDescriptor, made by the launcher and given to the
          kernel in place of pointer, sizes and strides; .load and .store of a descriptor, which
          take the first row and column: no pointers and no masks, what lies outside reads as 0
          and is not stored
Traffic   at most multiprocessors(a.device) programs; a, b and c are loaded and stored by
          descriptors alone; each element of a loaded at most ceil(N / 32) times, each of b at most
          ceil(M / 32) times; each of c stored once, coalesced, one launch
Speed     at least 0.3x the speed of a @ b at 4096 x 4096 x 4096, bfloat16

Run       pytest puzzles/17_persistent/test_descriptor_matmul.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides that TMA can address: contiguous rows that begin at an address that 16
          divides and lie a multiple of 16 bytes apart
Values    the whole range of float32; infinity and NaN reach only what they belong to
Raise     ValueError that names a if it is not 2-D or has another dtype,
          and b if it is not 2-D, has no K rows, or has another dtype than a; ValueError that names
          an a or b that TMA cannot address, or b if it has so many columns that TMA cannot
          address c.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/17_persistent/production/test_descriptor_matmul.py
"""

import torch
import triton
import triton.language as tl


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
    # TODO: the loops of persistent_matmul, with tiles from a_desc and b_desc, and into c_desc
    # The descriptors know strides and tiles; M, N, K and GROUP_M are for the loops. Add parameters
    # as you need them.
    pass


def descriptor_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    # TODO: allocate c, make three descriptors such as
    # TensorDescriptor.from_tensor(a, [BLOCK_M, BLOCK_K]), choose a grid, launch
    raise NotImplementedError
