"""References of chapter 14: what each puzzle computes, in plain PyTorch."""

import torch


def kv_cache_append(key, value, key_cache, value_cache, slots, dropped):
    P, page = key_cache.shape[:2]
    late = slots >= P * page
    keep = (slots >= 0) & ~late
    place = slots[keep].long()
    key_cache[place // page, place % page] = key[keep]
    value_cache[place // page, place % page] = value[keep]
    dropped += late.sum()


def attend(q, k, v, scale):
    """softmax(q k^T scale) v of q (H, D), k and v (Hkv, T, D), each serving H // Hkv heads of q."""
    k, v = (x.repeat_interleave(q.shape[-2] // k.shape[-3], dim=-3) for x in (k, v))
    x = q.unsqueeze(-2) @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    return (torch.softmax(x, dim=-1) @ v).squeeze(-2)


def flash_decoding(q, k, v, scale=None):
    return attend(q, k, v, scale)
