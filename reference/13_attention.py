"""References of chapter 13: what each puzzle computes, in plain PyTorch."""

import torch


def scores(q, k, scale):
    """q k^T * scale, (B, H, S, T); a head of k serves H // Hkv heads of q."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    return q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)


def distance(x):
    """i - j of query i and key j, for scores x (B, H, S, T)."""
    rows, columns = (torch.arange(size, device=x.device) for size in x.shape[-2:])
    return rows[:, None] - columns[None, :]


def weigh(x, v):
    """softmax(x) v."""
    v = v.repeat_interleave(x.shape[1] // v.shape[1], dim=1)
    return torch.softmax(x, dim=-1) @ v


def attention_scores(q, k, scale=None):
    return torch.softmax(scores(q, k, scale), dim=-1)


def flash_attention(q, k, v, scale=None):
    x = scores(q, k, scale)
    lse = torch.logsumexp(x.to(torch.promote_types(x.dtype, torch.float32)), dim=-1)
    return weigh(x, v), lse


def causal_attention(q, k, v, scale=None):
    x = scores(q, k, scale)
    return weigh(x.masked_fill(distance(x) < 0, float("-inf")), v)


def grouped_query_attention(q, k, v, scale=None, causal=False):
    x = scores(q, k, scale)
    if causal:
        x = x.masked_fill(distance(x) < 0, float("-inf"))
    return weigh(x, v)


def sliding_window_attention(q, k, v, window, scale=None):
    x = scores(q, k, scale)
    outside = (distance(x) < 0) | (distance(x) >= min(window, x.shape[-1]))
    return weigh(x.masked_fill(outside, float("-inf")), v)
