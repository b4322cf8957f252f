"""Results of attention with one step done wrong, for chapters 13, 16 and 17."""

import itertools
import math

import torch

from kernelgauge.words.fault import note

FIRST_TILE = (
    "every tile reads the rows of the first one: an offset leaves out where the tile begins"
)
RESCALED_UPWARDS = (
    "the accumulator and the sum are rescaled by exp(new - old maximum) instead of exp(old - new)"
)
NOT_RESCALED = "{} not rescaled when a later tile has a larger maximum"
HIDDEN_SCORE_0 = "hidden keys take part with the score 0 instead of -inf"
WAY_ROUND = "the mask is the wrong way round: it hides the earlier keys instead of the later ones"
PADDED_SCORE_0 = "keys past the end are not masked: they take part with the score 0"
WRONG_HEAD = "the wrong head of {}: h modulo their number instead of h divided by the group size"
ENDS_AFTER_ONE_TILE = "the loop ends after one tile of keys"
LAST_TILE_LEFT_OUT = "the loop leaves out the last tile of keys"
NOT_IN_BASE_2 = "exp2 of scores that were not multiplied by log2(e)"


def effective(scale, q):
    """Return the scale, or its default if it is None."""
    return q.shape[-1] ** -0.5 if scale is None else scale


def served(x, q):
    """Return x (B, Hkv, T, D) with each head repeated for the heads of q that it serves."""
    return x.repeat_interleave(q.shape[1] // x.shape[1], dim=1)


def dealt(x, q):
    """Return x (B, Hkv, T, D) with its heads dealt out in turn, which is wrong."""
    return x.repeat(1, q.shape[1] // x.shape[1], 1, 1)


def by_key_head(x, k):
    """Return x (B, H, T, D) as (B, Hkv, H / Hkv, T, D)."""
    return x.unflatten(1, (k.shape[1], -1))


def wrong_heads(q, k, v):
    """Yield (cause, keys, values) for the heads of q, which are those of other heads."""
    if k.shape[1] in (1, q.shape[1]):
        return
    yield WRONG_HEAD.format("keys"), dealt(k, q), served(v, q)
    yield WRONG_HEAD.format("values"), served(k, q), dealt(v, q)
    yield WRONG_HEAD.format("keys and values"), dealt(k, q), dealt(v, q)
    number = torch.arange(q.shape[0] * q.shape[1]) % (k.shape[0] * k.shape[1])
    both = [x.flatten(0, 1)[number].unflatten(0, q.shape[:2]) for x in (k, v)]
    yield WRONG_HEAD.format("keys and values"), *both


def positions(q, k):
    """Return the positions of the queries (S, 1) and of the keys (1, T)."""
    return torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])[None, :]


def seen(q, k, causal, window):
    """Return a function that returns the mask of what each query sees, widened by some keys."""
    rows, columns = positions(q, k)

    def mask(ahead=0, behind=0):
        everything = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
        if not (causal or window):
            return everything
        inside = columns <= rows + ahead
        return inside & (columns > rows - window - behind) if window else inside

    return mask


def running(x, tile):
    """Return for each score the largest one up to and including its tile of keys."""
    largest = torch.cat([part.amax(-1, True) for part in x.split(tile, -1)], -1)
    return largest.cummax(-1).values.repeat_interleave(tile, -1)[..., : x.shape[-1]]


def wrong_masks(q, k, causal, window, blocks):
    """Yield (cause, mask)."""
    mask, (rows, columns) = seen(q, k, causal, window), positions(q, k)
    if causal or window:
        yield "the mask lets one key after the query through", mask(ahead=1)
        yield "the mask hides the query's own key", mask(ahead=-1)
        yield "the mask is left out: later keys are seen", mask(ahead=k.shape[2])
    T = k.shape[2]
    if causal and q.shape[2] != T:
        cause = "the diagonal ends at the last query and the last key: it is moved by T - S"
        yield cause, mask(ahead=T - q.shape[2])
    if window:
        yield "the window is one key too wide", mask(behind=1)
        yield "the window is one key too narrow", mask(behind=-1)
        yield "the early edge of the window is not masked", columns <= rows
    if causal or window:
        for visited in tiles_to_the_diagonal(q, k, blocks):
            yield WAY_ROUND, (columns >= rows) & visited
        for tall, tile in itertools.product(blocks, blocks):
            before = -(-(rows // tall * tall) // tile) * tile
            yield "the loop leaves out the tiles on the diagonal", mask() & (columns < before)
            begin = columns // tile * tile
            for after in (begin // tall * tall + tall, -(-begin // tall) * tall):
                yield "the loop leaves out the tiles on the diagonal", mask() & (rows >= after)
            if window:
                begin = (rows // tall * tall - window + 1).clamp(min=0) // tile * tile
                inside = (columns <= rows) & (columns >= begin)
                yield "the early edge of the window is not masked", inside
                late = (rows // tall * tall + tall - window).clamp(min=0) // tile * tile
                cause = "the loop begins where the last query of a tile needs it, not the first"
                yield cause, mask() & (columns >= late)
    for tile in blocks:
        first, last = columns < tile, columns >= T // tile * tile
        yield ENDS_AFTER_ONE_TILE, mask() & first
        yield ENDS_AFTER_ONE_TILE, mask() & (first | last)
        yield LAST_TILE_LEFT_OUT, mask() & ~last
    if causal or window:
        for tall, tile in itertools.product(blocks, blocks):
            begin, end = rows // tall * tall, rows // tall * tall + tall
            ends = end // tile * tile, begin // tile * tile + tile, -(-begin // tile) * tile, T
            for whole in ends:
                whole = torch.as_tensor(whole).clamp(max=T // tile * tile)
                yield "tiles on the diagonal are not masked", mask() | (columns < whole)
            visited = columns < -(-end // tile) * tile
            yield "tiles on the diagonal are not masked", mask() | visited


def tiles_to_the_diagonal(q, k, blocks):
    """Yield masks of the keys in the tiles that the causal loop of each query's tile visits."""
    rows, columns = positions(q, k)
    for tall, tile in itertools.product(blocks, blocks):
        last = rows // tall * tall + tall - 1
        yield columns < (last // tile + 1) * tile


def padded_keys(x, rows, causal, tile):
    """Return the scores x (..., S, T) with those of keys past the end, which are 0 where seen."""
    T = x.shape[-1]
    wide = torch.nn.functional.pad(x, (0, -T % tile))
    columns = torch.arange(wide.shape[-1])
    return wide.masked_fill(causal & (columns > rows) & (columns >= T), -math.inf)


def twice_on_the_diagonal(x, rows, tall, tile):
    """Return the probabilities of scores x (..., S, T) where whole tiles end past the diagonal.

    Each tile of queries takes whole tiles of keys without a mask until its first query is passed,
    and then all from that query on with the mask.
    """
    wide = torch.nn.functional.pad(x, (0, -x.shape[-1] % tile))
    columns, begin = torch.arange(wide.shape[-1]), rows // tall * tall
    counts = (columns < -(-begin // tile) * tile).to(x.dtype)
    counts += (columns <= rows) & (columns >= begin) & (columns < x.shape[-1])
    terms = torch.exp(wide - wide.amax(-1, True)) * counts
    return (terms / terms.sum(-1, True))[..., : x.shape[-1]]


def first_tiles(q, k, blocks):
    """Yield the rows of q and of k that are read if every tile is taken for the first one."""
    S, T = q.shape[2], k.shape[2]
    for tall, tile in itertools.product((*blocks, S), (*blocks, T)):
        if tall < S or tile < T:
            yield torch.arange(S) % tall, torch.arange(T) % tile


def forward(q, k, v, scale, causal=False, window=None, *, blocks):
    """Yield (cause, out, lse), with None for what stays right."""
    on_top = None if scale is None else scale * q.shape[-1] ** -0.5
    scale, mask = effective(scale, q), seen(q, k, causal, window)()

    def attend(keys, values, factor, mask):
        x = (q @ keys.mT * factor).masked_fill(~mask, -math.inf)
        return x, torch.softmax(x, -1) @ values

    keys, values = served(k, q), served(v, q)
    x, _ = attend(keys, values, scale, mask)
    for cause, factor in (
        (NOT_IN_BASE_2, scale * math.log(2)),
        ("exp of scores that were multiplied by log2(e)", scale / math.log(2)),
        ("the scale is applied twice", scale * scale),
        ("the scale is applied twice, with its log2(e)", scale * scale * math.log2(math.e)),
        ("the scale is left out", 1.0),
        ("the scale is applied on top of D ** -0.5 instead of in its place", on_top),
    ):
        if factor is not None:
            yield cause, attend(keys, values, factor, mask)[1], None
    for cause, *wrong in wrong_heads(q, k, v):
        yield cause, attend(*wrong, scale, mask)[1], None
    for tall, tile in itertools.permutations(blocks, 2) if causal and not window else ():
        if tall % tile:
            cause = "the loop without a mask ends past a tile's first query: keys there count twice"
            p = twice_on_the_diagonal(q @ keys.mT * scale, positions(q, k)[0], tall, tile)
            yield cause, p @ values, None
    for cause, other in wrong_masks(q, k, causal, window, blocks):
        yield cause, attend(keys, values, scale, other)[1], None
    for tile in blocks if causal or window else ():
        wide = torch.nn.functional.pad(q @ keys.mT * scale, (0, -k.shape[2] % tile))
        columns, rows = torch.arange(wide.shape[-1]), positions(q, k)[0]
        # Keys past the end are not hidden, either.
        p = torch.softmax(wide.masked_fill(columns < rows, -math.inf), -1)
        out = p[..., : k.shape[2]] @ values
        yield WAY_ROUND, out, None
        # A tile that is hidden from a row altogether makes its maximum -inf.
        yield WAY_ROUND, out.masked_fill(rows >= tile, math.nan), None
    for visited in tiles_to_the_diagonal(q, k, blocks) if causal or window else ():
        zeros = (q @ keys.mT * scale).masked_fill(~mask, 0.0).masked_fill(~visited, -math.inf)
        yield HIDDEN_SCORE_0, torch.softmax(zeros, -1) @ values, None
    scaled_late = (q @ keys.mT).masked_fill(~mask, -math.inf) * scale
    cause = "scores are hidden before they are scaled: times 0 or less -inf is not -inf any more"
    yield cause, torch.softmax(scaled_late, -1) @ values, None
    right = torch.exp(x - x.amax(-1, True))
    yield "the accumulator is not divided by the sum", right @ values, None
    for tile in blocks:
        if k.shape[2] % tile:
            wide = padded_keys(x, positions(q, k)[0], bool(causal or window), tile)
            p = torch.softmax(wide, -1)[..., : k.shape[2]]
            yield PADDED_SCORE_0, p @ values, wide.logsumexp(-1)
            yield PADDED_SCORE_0, p @ values, None
            columns = torch.arange(wide.shape[-1])
            for tall in blocks if causal else ():
                below = positions(q, k)[0] // tall * tall
                whole = columns // tile * tile + tile <= below
                hidden = ~whole & (columns >= k.shape[2])
                p = torch.softmax(wide.masked_fill(hidden, -math.inf), -1)[..., : k.shape[2]]
                cause = "keys past the end are masked in the blocks that the diagonal cuts alone"
                yield cause, p @ values, None
        if tile < k.shape[2]:
            p, right = torch.exp(x - running(x, tile)), torch.exp(x - x.amax(-1, True))
            total = right.sum(-1, True)
            kept, kept_total = p @ values, p.sum(-1, True)
            yield NOT_RESCALED.format("the accumulator is"), kept / total, None
            yield NOT_RESCALED.format("the sum is"), right @ values / kept_total, None
            upwards = torch.exp(x + x.amax(-1, True) - 2 * running(x, tile))
            yield RESCALED_UPWARDS, upwards @ values / upwards.sum(-1, True), None
            cause = NOT_RESCALED.format("the accumulator and the sum are")
            yield cause, kept / kept_total, None
    for rows, columns in first_tiles(q, k, blocks):
        x_again = (q[:, :, rows] @ keys[:, :, columns].mT * scale).masked_fill(~mask, -math.inf)
        yield FIRST_TILE, torch.softmax(x_again, -1) @ values[:, :, columns], x_again.logsumexp(-1)
    largest, lse = x.amax(-1), x.logsumexp(-1)
    yield "the largest score is not added to the logarithm of the sum", None, lse - largest
    yield "lse is left in base 2", None, lse / math.log(2)
    cause = "the largest score is added to the logarithm in base 2, without ln(2)"
    yield cause, None, lse + largest * (1 / math.log(2) - 1)
    cause = "the logarithm of the sum is left in base 2, without ln(2)"
    yield cause, None, largest + (lse - largest) / math.log(2)
    cause = "the natural logarithm of the sum is multiplied by ln(2), which the maximum alone needs"
    yield cause, None, largest + (lse - largest) * math.log(2)
    cause = "the sum of the exponentials is stored, not its logarithm plus the largest score"
    yield cause, None, torch.exp(lse - largest)
    cause = "the sum of the exponentials is added to the largest score, not its logarithm"
    yield cause, None, largest + torch.exp(lse - largest)
    yield "lse is the largest score alone", None, largest


def backward(q, k, v, dout, lse, delta, scale, causal, *, blocks):
    """Yield (cause, dq, dk, dv), with None for what stays right or is not needed."""
    scale, mask = effective(scale, q), seen(q, k, causal, None)()
    keys, values, group = served(k, q), served(v, q), q.shape[1] // k.shape[1]
    x, dp = q @ keys.mT * scale, dout @ values.mT - delta[..., None]

    def gradients(p, ds):
        dk, dv = by_key_head(ds.mT @ q * scale, k), by_key_head(p.mT @ dout, k)
        return ds @ keys * scale, dk.sum(2), dv.sum(2)

    for rows, columns in first_tiles(q, k, blocks):
        given = q[:, :, rows], k[:, :, columns], v[:, :, columns], dout[:, :, rows]
        heads = torch.arange(q.shape[1])
        yield FIRST_TILE, *of_heads(*given, lse, delta, scale, mask, heads)
    p = torch.exp(x - lse[..., None])
    for cause, wrong in (
        (NOT_IN_BASE_2, torch.exp2(x - lse[..., None])),
        (NOT_IN_BASE_2, torch.exp2(x - lse[..., None] / math.log(2))),
        ("lse is not multiplied by log2(e)", torch.exp2(x / math.log(2) - lse[..., None])),
    ):
        wrong = wrong.where(mask, 0.0)
        yield cause, *gradients(wrong, wrong * dp)
    for cause, wrong in wrong_masks(q, k, causal, None, blocks):
        wrong = p.where(wrong, 0.0)
        dq, *of_keys = gradients(wrong, wrong * dp)
        # Those of keys are summed in a loop over the queries.
        over_keys = cause in (ENDS_AFTER_ONE_TILE, LAST_TILE_LEFT_OUT)
        yield cause, dq, *([None, None] if over_keys else of_keys)
    rows, columns = positions(q, k)
    for tile in blocks:
        wrong = p.where(mask & (rows < tile), 0.0)
        cause = "the loop ends after one tile of queries"
        yield cause, None, *gradients(wrong, wrong * dp)[1:]
    p = p.where(mask, 0.0)
    yield "ds lacks its factor p", *gradients(p, dp.where(mask, 0.0))[:2], None
    ds = p * dp
    yield note("left-out", name="delta"), *gradients(p, p * (dp + delta[..., None]))[:2], None
    after = p * (dp + delta[..., None]) - delta[..., None]
    for wrong in (after, after.where(mask, 0.0)):
        yield "delta is subtracted after p multiplies", *gradients(p, wrong)[:2], None
    for tile in sorted({it for it in blocks if it > 1}):
        along = rows // tile * tile + columns % tile
        own = delta[..., along.clamp(max=q.shape[2] - 1)].where(along < q.shape[2], 0.0)
        wrong = p * (dp + delta[..., None] - own)
        yield "delta is subtracted along the keys, not the queries", *gradients(p, wrong)[:2], None
    yield "delta is added instead of subtracted", *gradients(p, p * (dp + 2 * delta[..., None]))
    for cause, wrong in (
        ("ds takes p in place of dp", p),
        ("dp is the product of dout with k instead of v", dout @ keys.mT),
        ("dp is the product of q with v instead of dout with v", q @ values.mT),
    ):
        yield cause, *gradients(p, p * (wrong - delta[..., None]))[:2], None
    yield "dv is summed from ds instead of p", None, None, gradients(ds, ds)[2]
    yield "dk is summed from p instead of ds", None, gradients(p, p)[1], None
    for tile in blocks:
        if tile > 8:
            p_tiles, ds_tiles = transposed_tiles(p, tile), transposed_tiles(ds, tile)
            of_dq, of_dk, of_dv = gradients(p_tiles, ds_tiles)
            yield "a tile of p is not transposed for its product with dout", None, None, of_dv
            yield "a tile of ds is not transposed for its product with q", None, of_dk, None
            yield "tiles of p and ds are not transposed for their products", None, of_dk, of_dv
            yield "a tile of ds is transposed for its product with k", of_dq, None, None
    for cause, wrong_keys, wrong_values in wrong_heads(q, k, v):
        _, wrong = weights(q, wrong_keys, wrong_values, dout, lse, delta, scale, mask)
        yield cause, wrong @ wrong_keys * scale, None, None
    dq, dk, dv = gradients(p, ds)
    yield "dk and dv are swapped before dk is scaled", None, dv * scale, dk / scale
    yield "the scale is applied twice", dq * scale, dk * scale, None
    yield "the scale is left out", dq / scale, dk / scale, None
    cause = "the last factor is scale * log2(e), which only the exponent of exp2 takes"
    yield cause, dq / math.log(2), dk / math.log(2), None
    if group > 1:
        grouped = by_key_head(ds.mT @ q * scale, k), by_key_head(p.mT @ dout, k)
        for which, number in (("first", 0), ("last", -1)):
            only = [x[:, :, number] for x in grouped]
            cause = f"a head of keys covers only the {which} query head of its group"
            yield cause, None, only[0], only[1]
            yield cause, None, only[0], None
            yield cause, None, None, only[1]
        order = torch.arange(q.shape[1]).view(group, k.shape[1]).T.reshape(-1)
        dealt_out = of_heads(q, k, v, dout, lse, delta, scale, mask, order)[1:]
        yield "the query heads of another group are used", None, *dealt_out
        order = torch.arange(k.shape[1]).repeat_interleave(group) * group
        first = of_heads(q, k, v, dout, lse, delta, scale, mask, order)[1:]
        yield "the first query head of each group is used for all", None, *first


def transposed_tiles(x, tile):
    """Return x (..., S, T) with each square tile transposed where it is, and 0 past the edges."""
    S, T = x.shape[-2:]
    side = -(-max(S, T) // tile) * tile
    x = torch.nn.functional.pad(x, (0, side - T, 0, side - S))
    tiles = x.unflatten(-1, (-1, tile)).unflatten(-3, (-1, tile))
    return tiles.transpose(-3, -1).flatten(-4, -3).flatten(-2)[..., :S, :T]


def weights(q, keys, values, dout, lse, delta, scale, mask):
    """Return p and ds, with the keys and values of each head of q."""
    p = torch.exp(q @ keys.mT * scale - lse[..., None]).where(mask, 0.0)
    return p, p * (dout @ values.mT - delta[..., None])


def of_heads(q, k, v, dout, lse, delta, scale, mask, order):
    """Return dq, dk and dv if these query heads are taken for heads 0, 1, 2, ..."""
    q, dout, lse, delta = q[:, order], dout[:, order], lse[:, order], delta[:, order]
    p, ds = weights(q, served(k, q), served(v, q), dout, lse, delta, scale, mask)
    dk, dv = by_key_head(ds.mT @ q * scale, k), by_key_head(p.mT @ dout, k)
    return ds @ served(k, q) * scale, dk.sum(2), dv.sum(2)
