# fault: the group of scale and zero is that of the byte, not of the weight
# cause: the index into scale and zero along dimension 1 is half
# never: leaves out dimension

import torch
import triton
import triton.language as tl


@triton.jit
def int4_matmul_kernel(
    x_ptr, weight_ptr, scale_ptr, zero_ptr, out_ptr,
    M, N, K,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, BLOCK_N)
    offs_m = tl.program_id(0) // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    groups = K // GROUP
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    # A step takes BLOCK_K weights, all of one group, which lie in half as many bytes.
    for byte in range(0, K // 2, BLOCK_K // 2):
        offs_b = byte + tl.arange(0, BLOCK_K // 2)
        offs_k = byte * 2 + tl.arange(0, BLOCK_K)
        packed = tl.load(
            weight_ptr + offs_n[:, None] * (K // 2) + offs_b[None, :],
            mask=(offs_n < N)[:, None],
            other=0,
        )
        group = byte // GROUP
        scale = tl.load(scale_ptr + offs_n * groups + group, mask=offs_n < N, other=0.0)
        zero = tl.load(zero_ptr + offs_n * groups + group, mask=offs_n < N, other=0)
        q = tl.interleave(packed & 15, packed >> 4)
        w = (q.to(tl.float32) - zero.to(tl.float32)[:, None]) * scale.to(tl.float32)[:, None]
        x = tl.load(
            x_ptr + offs_m[:, None] * K + offs_k[None, :], mask=(offs_m < M)[:, None], other=0.0
        )
        acc = tl.dot(x, tl.trans(w.to(x.dtype)), acc)
    tl.store(
        out_ptr + offs_m[:, None] * N + offs_n[None, :],
        acc,
        mask=(offs_m < M)[:, None] & (offs_n < N)[None, :],
    )


def int4_matmul(
    x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor
) -> torch.Tensor:
    (M, K), N = x.shape, weight.shape[0]
    GROUP = K // scale.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK_M, BLOCK_N, BLOCK_K = (16 if M <= 16 else 64), 64, min(GROUP, 64)
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    int4_matmul_kernel[grid](
        x, weight, scale, zero, out, M, N, K,
        GROUP=GROUP, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K,
    )  # fmt: skip
    return out
