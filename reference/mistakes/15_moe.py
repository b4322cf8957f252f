"""Results of the puzzles of chapter 15 with one step done wrong."""

import itertools
from pathlib import Path

import torch

from kernelgauge.core.paths import load
from kernelgauge.diagnosis.mistakes import half_precisions, named
from kernelgauge.words.fault import note

matmul = load(Path(__file__).with_name("matmul.py"))


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
    left, taken = logits.clone(), []
    for _ in range(k):
        taken.append(torch.sort(left, dim=1, descending=True, stable=True).indices[:, :1])
        left = left.scatter(1, taken[-1], float("-inf"))
    cause = "taken experts are marked by -inf, and taken again where other logits are -inf"
    yield cause, (None, torch.cat(taken, dim=1), None)
    turned = torch.softmax(values, dim=1).flip(1), experts.flip(1), None
    yield "the smallest of the chosen logits comes first", turned
    yield "the balance lacks its factor E", (None, None, balance(experts, mean, 1))
    for tile in blocks:
        if 1 < tile < T:
            parts = zip(experts.split(tile), everything.split(tile), strict=True)
            product = sum(balance(own, each.mean(0)) * (len(own) / T) ** 2 for own, each in parts)
            cause = "f and P of each part are multiplied, and the products added: add them up first"
            yield cause, (None, None, product)
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


def permute_tokens(experts, num_experts, block, blocks):
    flat = experts.flatten().long()
    N = flat.numel()
    least = min(N, num_experts)
    slots = least + (N - least) // block

    def made(members, counts, starts, end=None):
        """The results if the members, an expert's together, begin at these places of `order`."""
        first = torch.cumsum(counts, 0) - counts
        places = torch.arange(len(members)) + (starts - first)[flat[members]]
        order = torch.full((slots * block,), N)
        order[places] = members
        inverse = torch.full((N,), -1)
        inverse[members] = places
        firsts = torch.arange(slots) * block
        owner = torch.searchsorted(starts + counts if end is None else end, firsts, right=True)
        return order, inverse, owner.where(owner < num_experts, -1)

    kept = flat >= 0
    members = torch.sort(flat.where(kept, num_experts), stable=True).indices[: kept.sum()]
    counts = torch.bincount(flat[kept], minlength=num_experts)
    padded = (counts + block - 1) // block * block
    ends = torch.cumsum(padded, 0)
    right = made(members, counts, ends - padded, ends)
    order, inverse, owners = right
    begins = torch.cumsum(counts, 0) - counts
    tight = made(members, counts, begins)
    yield "experts are not padded to whole blocks", tight
    yield "experts are not padded to whole blocks", (*tight[:2], None)
    falling = torch.sort(flat.flip(0).where(kept.flip(0), num_experts), stable=True).indices
    falling = N - 1 - falling[: kept.sum()]
    cause = "the assignments of an expert come in falling order"
    yield cause, made(falling, counts, ends - padded, ends)
    yield "padding holds N - 1 instead of N", (order.where(order < N, N - 1), None, None)
    yield "padding holds 0 instead of N", (order.where(order < N, 0), None, None)
    yield "padding holds -1 instead of N", (order.where(order < N, -1), None, None)
    yield "unused blocks are given expert 0", (None, None, owners.where(owners >= 0, 0))
    cause = "a block counts as used if it begins before N, which leaves padding out"
    yield cause, (None, None, owners.where(torch.arange(slots) * block < N, -1))
    last = owners.where(owners >= 0, num_experts - 1)
    yield "unused blocks are given the last expert", (None, None, last)
    yield (
        "unused blocks are given an expert past the last",
        (None, None, owners.where(owners >= 0, num_experts)),
    )
    rank = torch.zeros(N, dtype=torch.int64)
    rank[members] = torch.arange(len(members)) - begins[flat[members]]
    late = torch.full((slots * block + 1,), N)
    late[inverse[members] + 1] = members
    cause = "the rank counts the assignment itself: ranks begin at 1"
    yield cause, (late[:-1], inverse + 1, None)
    tokens = torch.where(order < N, order // experts.shape[1], N)
    yield "order holds tokens instead of assignments", (tokens, None, None)
    yield "inverse holds the rank within the expert, without its start", (None, rank, None)
    for tile in blocks:
        if 1 < tile < N:
            before = torch.zeros(N, dtype=torch.int64)
            for start in range(0, N, tile):
                part = flat[start : start + tile]
                hot = torch.nn.functional.one_hot(part, num_experts)
                before[start : start + tile] = (hot.cumsum(0) - hot).gather(1, part[:, None])[:, 0]
            places = (ends - padded)[flat] + before
            wrong = torch.full((slots * block,), N)
            wrong[places] = torch.arange(N)
            yield (
                "the rank counts within a tile only, without the tiles before",
                (None, places, None),
            )
            yield (
                "the rank counts within a tile only, without the tiles before",
                (wrong, places, None),
            )
    full = (counts > 0) & (counts % block == 0)
    slot = torch.arange(slots * block)
    padding = ((slot[:, None] >= ends - block) & (slot[:, None] < ends) & full).any(1)
    cause = (
        "the last block of an expert is padded from count % block on, which is 0 where it is full"
    )
    yield cause, (order.where(~padding, N), inverse, owners)
    yield cause, (order.where(~padding, N), None, None)
    extra = (counts // block + 1) * block
    extra = extra.where(counts > 0, 0)
    ends = torch.cumsum(extra, 0)
    cause = "an expert whose count is a multiple of block gets a block too many"
    yield cause, made(members, counts, ends - extra, ends)


def grouped_expert_gemm(x, weights, order, block_experts, top_k, blocks):
    M, E = len(x) * top_k, len(weights)
    rows = order.view(len(block_experts), -1).long()
    owners = block_experts.tolist()

    def made(multiply, row=lambda a: a // top_k, owner=lambda e: e):
        """y if these rows of x meet these weights."""
        y = x.new_zeros(M, weights.shape[1])
        for block, expert in zip(rows, owners, strict=True):
            taken = block[block < M]
            if expert >= 0 and len(taken):
                y[taken] = multiply(x[row(taken)], weights[owner(expert)].T)
        return y

    product = torch.matmul
    for cause, row in (
        ("the row of x is not divided by top_k", lambda a: a.clamp(max=len(x) - 1)),
        ("the row of x is a % T instead of a // top_k", lambda a: a % len(x)),
        ("the row of x is a // 2 whatever top_k is", lambda a: (a // 2).clamp(max=len(x) - 1)),
        ("the row of x is its place in order", lambda a: torch.arange(len(a)) % len(x)),
    ):
        yield cause, (made(product, row=row),)
    for cause, owner in (
        ("the weight of the first expert is used for all blocks", lambda e: 0),
        ("the weight of the expert before is used", lambda e: max(e - 1, 0)),
        ("the weight of the expert after is used", lambda e: min(e + 1, E - 1)),
    ):
        yield cause, (made(product, owner=owner),)
    size = rows.shape[1]
    for tile in blocks:
        if tile > size and tile % size == 0:
            cause = named("tiles have {tile} rows, but blocks have {size}", tile=tile, size=size)
            tiles = torch.arange(len(owners)) // (tile // size)
            first = block_experts[tiles * (tile // size)]
            y = x.new_zeros(M, weights.shape[1])
            for block, expert in zip(rows, first.tolist(), strict=True):
                taken = block[block < M]
                if expert >= 0:
                    y[taken] = x[taken // top_k] @ weights[expert].T
            yield cause, (y,)
    for (name, cast), step in itertools.product(half_precisions(), blocks):
        if not 16 <= step < x.shape[1] <= 64 * step:
            continue

        def rounded(a, b, cast=cast, step=step):
            total = 0.0
            for part, other in zip(a.split(step, 1), b.split(step), strict=True):
                total = cast(total + part @ other)
            return total

        yield note("sum-in-few-bits", dtype=name), (made(rounded),)
    right = made(product)
    places = order[order < M].long()
    in_order = torch.zeros_like(right)
    for place, a in itertools.islice(enumerate(order.tolist()), M):
        if a < M:
            in_order[place] = right[a]
    yield "rows of y are stored in the order of the experts", (in_order,)
    gathered = torch.zeros_like(right)
    gathered[: len(places)] = right[places]
    yield "rows of y are stored in the order of the experts", (gathered,)
    untransposed = made(lambda a, b: a @ b.T.reshape(b.shape))
    yield "weights[e] is read as if it were (K, N)", (untransposed,)
    for cause, _ in matmul.along_k(x, weights[0].T, blocks, ("x", "weights")):

        def wrong(a, b, cause=cause):
            return dict(matmul.along_k(a, b, blocks, ("x", "weights")))[cause]

        yield cause, (made(wrong),)


def fused_moe(x, logits, gate_up, down, k, blocks):
    ordered = torch.sort(logits, dim=1, descending=True, stable=True)
    values, experts = ordered.values[:, :k], ordered.indices[:, :k]
    weights, everything = torch.softmax(values, dim=1), torch.softmax(logits, dim=1)
    silu = torch.nn.functional.silu

    T = len(x)
    tokens, choices = torch.arange(T)[:, None], torch.arange(k)[None, :]

    def made(weights, activate=lambda g, u: silu(g) * u, inside=False, token=tokens, place=None):
        """out with these weights (T, k), which multiply x if inside, of these rows of x.

        place: where the result of each choice is looked up, if not in its own place, (T, k)
        """
        rows = x[token.expand(T, k)] * (weights[..., None] if inside else 1.0)
        gate, up = (gate_up[experts] @ rows[..., None])[..., 0].chunk(2, dim=2)
        y = (down[experts] @ activate(gate, up)[..., None])[..., 0]
        y = y if place is None else y.flatten(0, 1)[place]
        return ((y if inside else y * weights[..., None]).sum(1),)

    yield "gate and up are exchanged", made(weights, lambda g, u: g * silu(u))
    yield "silu is left out", made(weights, lambda g, u: g * u)
    cause = "silu is a sigmoid alone, without its factor g"
    yield cause, made(weights, lambda g, u: g.sigmoid() * u)
    yield "silu is applied to the product of gate and up", made(weights, lambda g, u: silu(g * u))
    yield note("left-out", name="up"), made(weights, lambda g, u: silu(g))
    cause = "the weight multiplies what the expert takes, not what it returns"
    yield cause, made(weights, inside=True)
    cause = "the weights are a softmax over all experts, not over the chosen ones"
    yield cause, made(everything.gather(1, experts))
    yield "the results of the experts are added without weights", made(torch.ones_like(weights))
    yield "the results of the experts are averaged", made(torch.ones_like(weights) / k)
    cause = "every expert's result gets the weight of the first choice"
    yield cause, made(weights[:, :1].expand(-1, k))
    yield "the weights come in the opposite order", made(weights.flip(1))
    if k > 1:
        last = choices == k - 1
        yield "the last choice is left out of the sum", made(weights.where(~last, 0.0))
        yield "only the last choice is left in the sum", made(weights.where(last, 0.0))
        place = tokens * k + choices
        yield "the row of x is a % T instead of a // k", made(weights, token=place % T)
        yield "the row of x is not divided by k", made(weights, token=place.clamp(max=T - 1))
        cause = "the result of choice j of token t is looked up in row j * T + t, not in t * k + j"
        yield cause, made(weights, place=choices * T + tokens)
