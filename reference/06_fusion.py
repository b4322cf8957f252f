"""References for chapter 06: what each puzzle computes, in plain PyTorch, Philox among it."""

import functools

import numpy as np
import torch


def swiglu(gate, up):
    return (torch.nn.functional.silu(gate) * up).contiguous()


def bias_gelu(x, bias):
    return torch.nn.functional.gelu(x + bias).contiguous()


def philox(seed, count, device="cpu"):
    """Return the four random words of each offset from 0 to count - 1, each int64 (count,).

    Runs ten rounds of Philox on the low and high 32 bits of the offset, keyed by the seed. A
    product of two words may be negative as int64; its two halves are right. Source: Salmon, Moraes,
    Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
    """
    word = 0xFFFFFFFF
    offsets = torch.arange(count, device=device)
    c0, c1 = offsets & word, offsets >> 32
    c2, c3 = torch.zeros_like(c0), torch.zeros_like(c0)
    k0, k1 = seed & word, seed >> 32 & word
    for _ in range(10):
        a, b = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1 = b >> 32 & word ^ c1 ^ k0, b & word
        c2, c3 = a >> 32 & word ^ c3 ^ k1, a & word
        k0, k1 = k0 + 0x9E3779B9 & word, k1 + 0xBB67AE85 & word
    return c0, c1, c2, c3


@functools.lru_cache(maxsize=1)
def uniform(seed, count, device="cpu"):
    """Return tl.rand(seed, offset) for offsets 0 to count - 1: float32 in [0, 1), (count,)."""
    return in_unit_interval(philox(seed, count, device)[0])


def in_unit_interval(words):
    """Return 32 random bits each as Triton makes a float32 in [0, 1) of them."""
    magnitude = torch.where(words < 2**31, words, 2**32 - 1 - words)
    return magnitude.to(torch.float32) * np.float32(4.6566127342e-10)


def dropout(x, p, seed):
    keep = uniform(seed, x.numel(), x.device) > np.float32(p)
    return torch.where(keep.view(x.shape), x / (1 - p), 0.0).contiguous()


def dropout_backward(dy, p, seed):
    return dropout(dy, p, seed)


def eager_dropout(x, p, seed):
    """Compute dropout with PyTorch's own random numbers, for timing: Philox in PyTorch is slow."""
    keep = torch.rand(x.shape, device=x.device) > p
    return torch.where(keep, x / (1 - p), 0.0)


def asin(x):
    return torch.asin(x).contiguous()


def adam_step(param, grad, exp_avg, exp_avg_sq, step, lr, beta1, beta2, eps, weight_decay):
    wide = torch.promote_types(param.dtype, torch.float32)
    p, grad = param.to(wide), grad.to(wide)
    m = beta1 * exp_avg.to(wide) + (1 - beta1) * grad
    v = beta2 * exp_avg_sq.to(wide) + (1 - beta2) * grad**2
    p = p - lr * weight_decay * p
    p = p - lr * (m / (1 - beta1**step)) / (torch.sqrt(v / (1 - beta2**step)) + eps)
    param.copy_(p)
    exp_avg.copy_(m)
    exp_avg_sq.copy_(v)
