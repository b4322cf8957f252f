"""Results of the puzzles of chapter 12 with one step done wrong."""

import torch

from judge.diagnosis.mistakes import half_precisions


def rope(q, k, cos, sin, inverse, blocks):
    S, h = q.shape[2], cos.shape[1]
    c, s = cos[:S], -sin[:S] if inverse else sin[:S]

    def turned(turn):
        results = []
        for x in (q, k):
            out = x.clone()
            out[..., : 2 * h] = turn(x[..., :h], x[..., h : 2 * h], x)
            results.append(out)
        return tuple(results)

    def neighbours(first, second, x):
        even, odd = x[..., 0 : 2 * h : 2], x[..., 1 : 2 * h : 2]
        return torch.stack((even * c - odd * s, odd * c + even * s), dim=-1).flatten(-2)

    yield "the pairs are neighbours, (2 i, 2 i + 1), instead of (i, i + D/2)", turned(neighbours)
    cause = "the second half of each pair is turned with the first half that was turned already"
    yield (
        cause,
        turned(lambda a, b, x: torch.cat((a * c - b * s, b * c + (a * c - b * s) * s), dim=-1)),
    )
    cause = "the sine has the other sign" + (": inverse is not used" if inverse else "")
    yield cause, turned(lambda a, b, x: torch.cat((a * c + b * s, b * c - a * s), dim=-1))
    cause = "both sines have the same sign: one of them is subtracted"
    yield cause, turned(lambda a, b, x: torch.cat((a * c + b * s, b * c + a * s), dim=-1))
    yield cause, turned(lambda a, b, x: torch.cat((a * c - b * s, b * c - a * s), dim=-1))
    cause = "cos and sin are exchanged"
    yield cause, turned(lambda a, b, x: torch.cat((a * s - b * c, b * s + a * c), dim=-1))
    cause = "the second half of each pair is not turned"
    yield cause, turned(lambda a, b, x: torch.cat((a * c - b * s, b), dim=-1))
    for name, cast in half_precisions():
        cause = f"products with cos and sin are rounded to {name}"
        yield (
            cause,
            turned(
                lambda a, b, x, cast=cast: torch.cat(
                    (cast(a * c) - cast(b * s), cast(b * c) + cast(a * s)), dim=-1
                )
            ),
        )
