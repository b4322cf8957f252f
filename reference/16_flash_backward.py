"""References of chapter 16: what each puzzle computes, in plain PyTorch."""

import torch


def scores(q, k, scale):
    """Return q k^T * scale, (B, H, S, T); a head of k serves H // Hkv heads of q."""
    return q @ per_query_head(k, q).mT * (q.shape[-1] ** -0.5 if scale is None else scale)


def per_query_head(x, q):
    """Repeat each head of x (B, Hkv, T, D) for the heads of q that it serves."""
    return x.repeat_interleave(q.shape[1] // x.shape[1], dim=1)


def per_key_head(x, k):
    """Sum x (B, H, T, D) over the heads of q that one head of k serves."""
    return x.unflatten(1, (k.shape[1], -1)).sum(dim=2)


def too_late(x):
    """Return the mask (S, T) of scores x (B, H, S, T): True where key j > query i."""
    rows, columns = (torch.arange(size, device=x.device) for size in x.shape[-2:])
    return rows[:, None] < columns[None, :]


def p_and_ds(q, k, v, dout, lse, delta, scale, causal):
    """Return the probabilities and the gradient of the scores, (B, H, S, T) in the dtype of q."""
    p = torch.exp(scores(q, k, scale) - lse[..., None])
    if causal:
        p = p.masked_fill(too_late(p), 0.0)
    ds = p * (dout @ per_query_head(v, q).mT - delta[..., None])
    return p.to(q.dtype), ds.to(q.dtype)


def attention_delta(out, dout):
    wide = torch.promote_types(out.dtype, torch.float32)
    return (out.to(wide) * dout.to(wide)).sum(dim=-1)


def attention_dkdv(q, k, v, dout, lse, delta, scale=None, causal=False):
    p, ds = p_and_ds(q, k, v, dout, lse, delta, scale, causal)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return per_key_head(ds.mT @ q * scale, k), per_key_head(p.mT @ dout, k)


def attention_dq(q, k, v, dout, lse, delta, scale=None, causal=False):
    _, ds = p_and_ds(q, k, v, dout, lse, delta, scale, causal)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return ds @ per_query_head(k, q) * scale


def masked_scores(q, k, scale, causal):
    x = scores(q, k, scale)
    return x.masked_fill(too_late(x), float("-inf")) if causal else x


def differentiable_attention(q, k, v, scale=None, causal=False):
    # The division comes after the product, so that the gradient goes through out, as it does
    # through delta: the rounding of out is then part of the error that a right kernel may have.
    x = masked_scores(q, k, scale, causal)
    terms = torch.exp(x - x.detach().amax(dim=-1, keepdim=True))
    return terms @ per_query_head(v, q) / terms.sum(dim=-1, keepdim=True)


def eager_attention(q, k, v, scale=None, causal=False):
    """Compute the same as PyTorch users write it: the opponent in the race."""
    return torch.softmax(masked_scores(q, k, scale, causal), dim=-1) @ per_query_head(v, q)
