"""Results of the puzzles of chapter 07 with one step done wrong."""

import itertools

import torch
from torch.nn.functional import gelu

from judge.diagnosis.mistakes import half_precisions


def linear(x, weight, bias, activation, blocks):
    for (name, cast), block in itertools.product(half_precisions(), blocks):
        total = 0.0
        for part, other in zip(x.split(block, 1), weight.split(block, 1), strict=True):
            total = cast(total + part @ other.T)
        if activation is None and x.shape[1] <= 64 * block:
            yield f"a sum is accumulated in {name} instead of float32", (total + bias,)
    product = x @ weight.T
    activate = {"relu": torch.relu, "gelu": gelu}.get(activation, torch.clone)
    for name, cast in half_precisions():
        cause = f"the product is rounded to {name} before the bias is added"
        yield cause, (activate(cast(product) + bias),)
    if activation == "gelu":
        out = gelu(product + bias, approximate="tanh")
        yield "GELU is computed with tanh instead of erf", (out,)
    if name := {"gelu": "GELU", "relu": "ReLU"}.get(activation):
        cause = f"the bias is added after {name} instead of before"
        yield cause, (activate(product) + bias,)
        yield "the activation is left out", (product + bias,)
