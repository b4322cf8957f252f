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


def geglu(gate, up, blocks, dout=None):
    c = (2 / torch.pi) ** 0.5
    cube = 0.044715 * gate**3
    t = torch.tanh(c * (gate + cube))
    gelu = gate / 2 * (1 + t)
    bend = gate / 2 * (1 - t * t) * c

    def slope(factor):
        return (1 + t) / 2 + bend * factor

    right = slope(1 + 3 * 0.044715 * gate**2)

    def results(y=None, dgate=None, dup=None):
        return (y, dgate, dup)[: 1 if dout is None else 3]

    exact = gate / 2 * (1 + torch.erf(gate / 2**0.5))
    yield "GELU is computed with erf instead of tanh", results(exact * up)
    yield (
        "GELU is taken of up instead of gate",
        results(torch.nn.functional.gelu(up, approximate="tanh") * gate),
    )
    yield "GELU lacks its factor 1 / 2", results(2 * gelu * up)
    cause = "the factor sqrt(2 / pi) is left out"
    yield cause, results(gate / 2 * (1 + torch.tanh(gate + cube)) * up)
    yield "the cubic term is left out", results(gate / 2 * (1 + torch.tanh(c * gate)) * up)
    cause = "sigmoid(z) instead of sigmoid(2 z): it is (1 + tanh(z / 2)) / 2"
    yield cause, results(gate * torch.sigmoid(c * (gate + cube)) * up)
    yield "up is added instead of multiplied", results(gelu + up)
    if dout is None:
        return
    yield (
        "the gradients of gate and up are exchanged",
        results(None, dout * gelu, dout * up * right),
    )
    for cause, wrong in (
        ("gelu'(gate) lacks its second term, which comes from tanh", slope(0)),
        ("the factor 3 of the cubic term's derivative is left out", slope(1 + 0.044715 * gate**2)),
        ("the derivative of the cubic term is left out", slope(1)),
        ("gelu'(gate) is gelu(gate)", gelu),
    ):
        yield cause, results(None, dout * up * wrong, None)
    yield "up is left out of the gradient of gate", results(None, dout * right, None)
    yield "dy is left out of the gradient of gate", results(None, up * right, None)
    yield "the gradient of up is dy * gate, without gelu", results(None, None, dout * gate)
