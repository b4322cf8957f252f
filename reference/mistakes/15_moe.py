"""Results of the puzzles of chapter 15 with one step done wrong."""

import torch


def route_top_k(logits, k, blocks):
    T, E = logits.shape
    highest = torch.sort(logits, dim=1, descending=True, stable=True)
    values, experts = highest.values[:, :k], highest.indices[:, :k]
    everything = torch.softmax(logits, dim=1)
    kept = everything.gather(1, experts)
    yield "the weights are a softmax over all experts, not over the chosen ones", (kept, None, None)
    yield "the weights are not divided by their sum", ((values - values[:, :1]).exp(), None, None)
    yield "the weights are the logits themselves", (values, None, None)

    def balance(chosen, probability, factor=E):
        share = torch.bincount(chosen.flatten(), minlength=E).to(logits.dtype)
        return factor * (share / chosen.numel() * probability).sum()

    mean = everything.mean(0)
    backwards = E - 1 - torch.sort(logits.flip(1), dim=1, descending=True, stable=True).indices
    cause = "of equal logits the last one is chosen first"
    yield cause, (None, backwards[:, :k], balance(backwards[:, :k], mean))
    best = experts[:, :1].expand(T, k)
    cause = "the best expert is chosen every time"
    for counted in (balance(best, mean), torch.zeros_like(mean[0])):
        yield cause, (torch.full_like(kept, 1 / k), best, counted)
    again = (logits[:, :, None] == logits[:, None, :]).tril(-1).any(2)
    once = logits.masked_fill(again, float("-inf"))
    once = torch.sort(once, dim=1, descending=True, stable=True)
    few = torch.softmax(once.values[:, :k], dim=1), once.indices[:, :k], None
    yield "logits equal to the one chosen are excluded with it", few
    turned = torch.softmax(values, dim=1).flip(1), experts.flip(1), None
    yield "the smallest of the chosen logits comes first", turned
    yield "the balance lacks its factor E", (None, None, balance(experts, mean, 1))
    yield "f counts the first choice of each token only", (None, None, balance(best, mean))
    weights = torch.softmax(values, dim=1)
    chosen = torch.zeros_like(mean).scatter_add_(0, experts.flatten(), weights.flatten())
    yield "f adds up weights instead of counting", (None, None, E * (chosen / T * mean).sum())
    share = torch.bincount(experts.flatten(), minlength=E).to(logits.dtype)
    yield "f is divided by T alone, not by T * k", (None, None, E * (share / T * mean).sum())
    cause = "P is the mean of the logits, not of their softmax"
    yield cause, (None, None, balance(experts, logits.mean(0)))
    for block in blocks:
        if rest := -T % block:
            # What a row of equal logits would add.
            padded = mean + rest / E / T
            yield "rows past T count in P", (None, None, balance(experts, padded))
            yield "rows past T count in P", (None, None, balance(experts, padded * T / (T + rest)))
