# One program a row; signed patterns, one pass over the row for each bit; sums carried as numbers.

import torch
import triton
import triton.language as tl


@triton.jit
def pattern(x):
    bits = x.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


@triton.jit
def top_k_sampling_kernel(
    logits_ptr, uniform_ptr, token_ptr,
    V, k, temperature, p,
    HAS_P: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    x_ptr = logits_ptr + row * V
    m = float("-inf")
    for start in range(0, V, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs, mask=offs < V, other=float("-inf")).to(tl.float32)
        m = tl.maximum(m, tl.max(x, axis=0))

    # The lowest pattern is that of the sign bit alone: bits are added to it from there.
    low = -2147483648
    for i in range(32):
        step = tl.where(i == 0, -2147483648, 1 << (31 - i))
        trial = low ^ step
        count = 0
        for start in range(0, V, BLOCK):
            offs = start + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + offs, mask=offs < V, other=float("-inf")).to(tl.float32)
            count += tl.sum(((pattern(x) >= trial) & (offs < V)).to(tl.int32), axis=0)
        low = tl.where(count >= k, trial, low)

    total = 0.0
    for start in range(0, V, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs, mask=offs < V, other=float("-inf")).to(tl.float32)
        w = tl.where(pattern(x) >= low, tl.exp((x - m) / temperature), 0.0)
        total += tl.sum(w, axis=0)

    if HAS_P:
        least = -2147483648
        for i in range(32):
            step = tl.where(i == 0, -2147483648, 1 << (31 - i))
            trial = least ^ step
            mass = 0.0
            for start in range(0, V, BLOCK):
                offs = start + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < V, other=float("-inf")).to(tl.float32)
                keep = (pattern(x) >= low) & (pattern(x) >= trial)
                mass += tl.sum(tl.where(keep, tl.exp((x - m) / temperature), 0.0), axis=0)
            least = tl.where(mass >= p * total, trial, least)
        low = tl.maximum(low, least)
        total = 0.0
        for start in range(0, V, BLOCK):
            offs = start + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + offs, mask=offs < V, other=float("-inf")).to(tl.float32)
            w = tl.where(pattern(x) >= low, tl.exp((x - m) / temperature), 0.0)
            total += tl.sum(w, axis=0)

    target = tl.load(uniform_ptr + row) * total
    carry = 0.0
    token = V
    for start in range(0, V, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs, mask=offs < V, other=float("-inf")).to(tl.float32)
        w = tl.where(pattern(x) >= low, tl.exp((x - m) / temperature), 0.0)
        running = carry + tl.cumsum(w, axis=0)
        token = tl.minimum(token, tl.min(tl.where(running > target, offs, V), axis=0))
        carry += tl.sum(w, axis=0)
    tl.store(token_ptr + row, token)


def top_k_sampling(
    logits: torch.Tensor,
    uniform: torch.Tensor,
    k: int,
    temperature: float = 1.0,
    p: float = 1.0,
) -> torch.Tensor:
    B, V = logits.shape
    token = torch.empty(B, dtype=torch.int64, device=logits.device)
    top_k_sampling_kernel[(B,)](
        logits, uniform, token, V, k, temperature, p,
        HAS_P=p < 1, BLOCK=min(4096, triton.next_power_of_2(V)), num_warps=8,
    )  # fmt: skip
    return token
