"""What the puzzles of chapter 07 give with one step done wrong."""

import itertools

import torch
from torch.nn.functional import gelu

from judge.core.dtypes import dtype_name


def linear(x, weight, bias, activation, blocks):
    for dtype, block in itertools.product((torch.float16, torch.bfloat16), blocks):
        total = 0.0
        for part, other in zip(x.split(block, 1), weight.split(block, 1), strict=True):
            total = (total + part @ other.T).to(dtype).double()
        if activation is None and x.shape[1] <= 64 * block:
            name = dtype_name(dtype)
            yield f"a sum accumulated in {name} and not in float32", (total + bias,)
    product = x @ weight.T
    activate = {"relu": torch.relu, "gelu": gelu}.get(activation, torch.clone)
    for dtype in (torch.float16, torch.bfloat16):
        cause = f"a product rounded to {dtype_name(dtype)} before the bias is added"
        yield cause, (activate(product.to(dtype).double() + bias),)
    out = product + bias
    if activation == "gelu":
        yield "tanh in place of erf in GELU", (gelu(out, approximate="tanh"),)
        yield "a bias added after GELU, not before", (gelu(out - bias) + bias,)
        yield "no activation", (out,)
    if activation == "relu":
        yield "a bias added after ReLU, not before", ((out - bias).relu() + bias,)
        yield "no activation", (out,)
