# Everything in early_config_prune, without perf_model: it takes the largest tile that gives every
# multiprocessor one, and those next to it. BLOCK_K is in the configs, and offsets are of 32 bits.

import torch
import triton
import triton.language as tl


def multiprocessors(device):
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


def shared_memory(device):
    if device.type != "cuda":
        return 163 * 1024
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


def prune(configs, named_args, **kwargs):
    a, M, N = named_args["a_ptr"], named_args["M"], named_args["N"]
    times = []
    for config in configs:
        m, n, k = (config.kwargs[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))
        if config.num_stages * (m + n) * k * a.element_size() > shared_memory(a.device):
            continue
        rounds = triton.cdiv(triton.cdiv(M, m) * triton.cdiv(N, n), multiprocessors(a.device))
        times.append((rounds * max(m * n, 64 * (m + n)), config))
    times.sort(key=lambda pair: pair[0])
    return [config for _, config in times[:3]]


configs = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=w, num_stages=s)
    for m, n, k, w, s in [
        (128, 256, 64, 8, 3),
        (256, 128, 64, 8, 3),
        (128, 256, 32, 8, 3),
        (128, 128, 64, 8, 3),
        (128, 128, 32, 4, 4),
        (128, 64, 64, 4, 3),
        (64, 128, 64, 4, 3),
        (64, 64, 64, 4, 4),
        (64, 64, 32, 4, 4),
        (32, 64, 64, 4, 4),
        (64, 32, 64, 4, 4),
        (16, 128, 64, 4, 4),
        (128, 16, 64, 4, 4),
        (16, 64, 64, 4, 4),
        (64, 16, 64, 4, 4),
    ]
]


@triton.autotune(
    configs=configs, key=["M", "N", "K"], prune_configs_by={"early_config_prune": prune}
)
@triton.jit
def pruned_matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    group = pid // (GROUP_M * tiles_n)
    size = min(tiles_m - group * GROUP_M, GROUP_M)
    inside = pid % (GROUP_M * tiles_n)
    offs_m = (group * GROUP_M + inside % size) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = inside // size * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (offs_m % M)[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + (offs_n % N)[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
    c = acc.to(c_ptr.dtype.element_ty)
    tl.store(c_ptrs, c, mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


def pruned_matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    pruned_matmul_kernel[
        lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)
    ](a, b, c, M, N, K, *a.stride(), *b.stride(), GROUP_M=8)
    return c
