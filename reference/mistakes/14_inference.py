"""Results of the puzzles of chapter 14 with one step done wrong."""

import math
from pathlib import Path

import torch

from kernelgauge.core.paths import load

attention = load(Path(__file__).with_name("attention.py"))


LENGTHS = {32, 64, 128, 256, 512, 1024}


def _decoded(q, k, v, scale, blocks):
    """Yield (cause, out) of attention of q (B, H, 1, D)."""
    for cause, out, _ in attention.forward(q, k, v, scale, blocks=blocks):
        if out is not None:
            yield cause, out
    values = attention.served(v, q)
    x = q @ attention.served(k, q).mT * attention.effective(scale, q)
    for length in sorted({*blocks, *LENGTHS}):
        if length < x.shape[-1]:
            yield from _merged(x.split(length, -1), values.split(length, -2), blocks)


def _merged(scores, values, blocks):
    """Yield (cause, out) of splits whose parts are made or merged in a wrong way."""
    m = torch.stack([x.amax(-1, True) for x in scores])
    terms = [torch.exp(x - x.amax(-1, True)) for x in scores]
    sums = torch.stack([p.sum(-1, True) for p in terms])
    means = torch.stack([p @ v for p, v in zip(terms, values, strict=True)]) / sums

    def weighed(weights, parts=means):
        return (weights * parts).sum(0) / weights.sum(0)

    cause = "the parts are weighed by their maxima alone, without the logarithms of their sums"
    yield cause, weighed(torch.exp(m - m.amax(0)))
    cause = "the parts are added without regard to their maxima"
    yield cause, weighed(sums)
    yield cause, weighed(torch.ones_like(sums))
    for factor in (math.log(2), 1 / math.log(2)):
        cause = "the parts' maxima and the logarithms of their sums are in different bases"
        yield cause, weighed(torch.exp(m + torch.log(sums) * factor - m.amax(0)))
        cause = "the parts are weighed in another base than their maxima are in"
        yield cause, weighed(torch.exp((m - m.amax(0)) * factor) * sums)
        yield cause, weighed(torch.softmax((m + torch.log(sums)) * factor, 0))
    for tile in blocks:
        if tile >= scores[0].shape[-1]:
            continue
        kept = [
            torch.exp(x - attention.running(x, tile)) @ v
            for x, v in zip(scores, values, strict=True)
        ]
        cause = attention.NOT_RESCALED.format("the accumulator is")
        yield cause, weighed(torch.exp(m - m.amax(0)) * sums, torch.stack(kept) / sums)
    for logarithms, factors in ((m, sums), (m + torch.log(sums), torch.ones_like(sums))):
        right = torch.exp(logarithms - logarithms.amax(0)) * factors
        for step in sorted({1, *blocks}):
            if step >= len(m):
                continue
            largest = attention.running(logarithms.movedim(0, -1), step).movedim(-1, 0)
            kept = torch.exp(logarithms - largest) * factors
            for what, over, under in (("accumulator", kept, right), ("sum", right, kept)):
                cause = (
                    f"when the parts are merged, the {what} is not rescaled as the maximum grows"
                )
                yield cause, (over * means).sum(0) / under.sum(0)


def reference(q, k, v, scale):
    x = q @ attention.served(k, q).mT * attention.effective(scale, q)
    return torch.softmax(x, -1) @ attention.served(v, q)


def flash_decoding(q, k, v, scale, blocks):
    for cause, out in _decoded(q[:, :, None], k, v, scale, blocks):
        yield cause, (out[:, :, 0],)


def paged_attention(q, key_cache, value_cache, block_tables, lengths, scale, blocks):
    page = key_cache.shape[1]

    def found(tile=1):
        """Return q, k and v of each sequence. Keys of one tile take the page of the first."""
        for b, length in enumerate(lengths.tolist()):
            places = torch.arange(length)
            pages = block_tables[b].long()[places // tile * tile // page]
            k, v = (
                cache[pages, places % page].transpose(0, 1) for cache in (key_cache, value_cache)
            )
            yield q[b : b + 1, :, None], k[None], v[None]

    for tile in blocks:
        if tile > page:
            cause = "each tile takes the page of its first key for all its keys"
            outs = [reference(*one, scale) for one in found(tile)]
            yield cause, (torch.cat(outs)[:, :, 0],)
    each = [_decoded(*one, scale, blocks) for one in found()]
    for same in zip(*each, strict=False):
        causes = {cause for cause, _ in same}
        if len(causes) == 1:
            yield causes.pop(), (torch.cat([out[:, :, 0] for _, out in same]),)


def top_k_sampling(logits, uniform, k, temperature, p, blocks):
    V = logits.shape[1]

    def drawn(k=k, temperature=temperature, p=p, of_all=False, whole=False, block=V):
        """Return the tokens that may be drawn with something of this changed.

        Where no sum is above the number that is drawn: none, the last one, or the last that stays.
        """
        x = logits / temperature
        everything = torch.softmax(x, 1)
        if k < V:
            x = x.masked_fill(x < x.topk(k, dim=1).values[:, -1:], -math.inf)
        w = everything.masked_fill(x == -math.inf, 0)
        if p < 1:
            likely = w.sort(dim=1, descending=True).values
            least = p if of_all else p * w.sum(1, keepdim=True)
            place = (likely.cumsum(1) < least).sum(1, keepdim=True).clamp(max=V - 1)
            w = w.masked_fill(w < likely.gather(1, place), 0)
        running = torch.cat([part.cumsum(1) for part in w.split(block, 1)], 1)
        above = running > uniform[:, None] * (1 if whole else w.sum(1, keepdim=True))
        past = V, V - 1, V - 1 - (w > 0).flip(1).int().argmax(1)
        return [torch.where(above.any(1), above.int().argmax(1), it) for it in past]

    for cause, changed in (
        (
            "p is a part of the whole vocabulary's probability, not of those that k leaves",
            {"of_all": True},
        ),
        ("k is left out", {"k": V}),
        ("logits are multiplied by the temperature", {"temperature": 1 / temperature}),
        (
            "uniform is multiplied by the mass of all tokens, not of those that stay",
            {"whole": True},
        ),
    ):
        for token in drawn(**changed):
            yield cause, (token,)
    for block in blocks:
        if block < V:
            for token in drawn(block=block):
                yield "the running sum begins anew in each block", (token,)


def speculative_verify(draft_tokens, draft_probs, target_probs, uniform, blocks):
    B, K = draft_tokens.shape
    rows = torch.arange(B)
    at = draft_tokens.long().clamp(min=0)[:, :, None]
    q, p = (x[:, :K].gather(2, at)[:, :, 0] for x in (draft_probs, target_probs))
    taken = (draft_tokens >= 0) & (uniform[:, :K] * q < p)

    def verified(
        hidden=None,
        all_count=False,
        minus=1,
        clamp=True,
        whole=False,
        with_draft=False,
    ):
        """Return both results with something of this changed."""
        accepted = taken.int().sum(1) if all_count else taken.int().cumprod(1).sum(1)
        last = accepted.clamp(max=K - 1)
        refused = (accepted < K) & (draft_tokens[rows, last] >= 0)
        less = torch.where(refused[:, None], draft_probs[rows, last], 0) * minus
        w = target_probs[rows, accepted] - less
        running = (w.clamp(min=0) if clamp else w).cumsum(1)
        u = uniform[rows, accepted] if with_draft else uniform[:, K]
        above = running > (u if whole else u * running[:, -1])[:, None]
        drawn = torch.where(above.any(1), above.int().argmax(1), w.shape[1] - 1)
        place = torch.arange(K + 1)
        shown = draft_tokens if hidden is None else draft_tokens.masked_fill(hidden, -1)
        kept = torch.cat((shown, draft_tokens[:, :1]), 1)
        kept = kept.masked_fill(place >= accepted[:, None], -1)
        return torch.where(place == accepted[:, None], drawn[:, None], kept), accepted

    for cause, changed in (
        ("drafts after the first refusal count too", {"all_count": True}),
        ("drafts after the first refusal count too", {"all_count": True, "hidden": ~taken}),
        ("the token after a refusal is drawn from target_probs itself", {"minus": 0}),
        ("differences below 0 take part in the draw", {"clamp": False}),
        (
            "what is left over is not renormalised: uniform is compared with its running sum",
            {"whole": True},
        ),
        (
            "the token is drawn with the number of draft n, not with the last one",
            {"with_draft": True},
        ),
    ):
        yield cause, verified(**changed)
