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


def scores(q, k, scale):
    """q k^T * scale, (B, H, 1, T); a head of k serves H // Hkv heads of q."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    return q[:, :, None] @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)


def weigh(x, v):
    """softmax(x) v, (B, H, D)."""
    v = v.repeat_interleave(x.shape[1] // v.shape[1], dim=1)
    return (torch.softmax(x, dim=-1) @ v)[:, :, 0]


def flash_decoding(q, k, v, scale=None):
    return weigh(scores(q, k, scale), v)


def paged_attention(q, key_cache, value_cache, block_tables, lengths, scale=None):
    page, longest = key_cache.shape[1], int(lengths.max())
    tables = block_tables[:, : -(-longest // page)].long()
    first = torch.arange(tables.shape[1], device=q.device) * page
    tables = tables.masked_fill(first >= lengths[:, None], 0)
    seen = torch.arange(tables.shape[1] * page, device=q.device) < lengths[:, None]
    k, v = (
        cache[tables].flatten(1, 2).transpose(1, 2).masked_fill(~seen[:, None, :, None], 0)
        for cache in (key_cache, value_cache)
    )
    x = scores(q, k, scale).masked_fill(~seen[:, None, None], float("-inf"))
    return weigh(x, v).masked_fill((lengths == 0)[:, None, None], 0)


def top_k_sampling(logits, uniform, k, temperature=1.0, p=1.0):
    x = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    if k < x.shape[1]:
        x = x.masked_fill(x < x.topk(k, dim=1).values[:, -1:], float("-inf"))
    w = torch.softmax(x, dim=1)
    if p < 1:
        likely = w.sort(dim=1, descending=True).values
        # The last to stay is the first with which the sum reaches p.
        last = likely.gather(
            1, (likely.cumsum(1) < p).sum(1, keepdim=True).clamp(max=x.shape[1] - 1)
        )
        w = w.masked_fill(w < last, 0)
    running = w.cumsum(1)
    return (running > uniform[:, None] * running[:, -1:]).int().argmax(1)


def speculative_verify(draft_tokens, draft_probs, target_probs, uniform):
    B, K = draft_tokens.shape
    rows = torch.arange(B, device=uniform.device)
    drafts = draft_tokens.long()
    at = drafts.masked_fill(drafts == -1, 0)[:, :, None]
    q, p = (x[:, :K].gather(2, at)[:, :, 0] for x in (draft_probs, target_probs))
    taken = (drafts >= 0) & (uniform[:, :K] * q < p)
    accepted = taken.int().cumprod(1).sum(1)
    last = accepted.clamp(max=K - 1)
    refused = (accepted < K) & (drafts[rows, last] >= 0)
    minus = torch.where(refused[:, None], draft_probs[rows, last], 0)
    running = (target_probs[rows, accepted] - minus).clamp(min=0).cumsum(1)
    drawn = (running > uniform[:, K:] * running[:, -1:]).int().argmax(1)
    place = torch.arange(K + 1, device=uniform.device)
    kept = torch.cat((drafts, drafts[:, :1]), dim=1).masked_fill(place >= accepted[:, None], -1)
    return torch.where(place == accepted[:, None], drawn[:, None], kept), accepted.int()
