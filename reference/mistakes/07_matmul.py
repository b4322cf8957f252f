"""Results of the puzzles of chapter 07 with one step done wrong."""

import itertools
from pathlib import Path

import torch
from torch.nn.functional import gelu

from kernelgauge.core.paths import load
from kernelgauge.diagnosis.mistakes import half_precisions
from kernelgauge.words.fault import note

matmul = load(Path(__file__).with_name("matmul.py"))


def matvec(a, x, blocks):
    for cause, product in matmul.along_k(a, x[:, None], blocks, ("a", "x")):
        yield cause, (product[:, 0],)


def tiled_matmul(a, b, blocks):
    for cause, product in matmul.along_k(a, b, blocks):
        yield cause, (product,)


swizzled_matmul = batched_matmul = autotuned_matmul = tiled_matmul


def linear(x, weight, bias, activation, blocks):
    for (name, cast), block in itertools.product(half_precisions(), blocks):
        total = 0.0
        for part, other in zip(x.split(block, 1), weight.split(block, 1), strict=True):
            total = cast(total + part @ other.T)
        if activation is None and x.shape[1] <= 64 * block:
            yield note("sum-in-few-bits", dtype=name), (total + bias,)
    product = x @ weight.T
    activate = {"relu": torch.relu, "gelu": gelu}.get(activation, torch.clone)
    for cause, wrong in matmul.along_k(x, weight.T, blocks, ("x", "weight")):
        yield cause, (activate(wrong + bias),)
    for block in blocks:
        if 1 < block < x.shape[1]:
            total = torch.zeros_like(product)
            for part, other in zip(x.split(block, 1), weight.split(block, 1), strict=True):
                total = activate(total + part @ other.T)
            cause = "the activation is applied in every step of the loop, to a part of the sum"
            yield cause, (total + bias,)
            yield cause, (activate(total + bias),)
            steps = -(-x.shape[1] // block)
            cause = "the bias is added in every step of the loop"
            yield cause, (activate(product + steps * bias),)
            yield cause, (activate(product + (steps + 1) * bias),)
    for name, cast in half_precisions():
        cause = f"the product is rounded to {name} before the bias is added"
        yield cause, (activate(cast(product) + bias),)
    if activation == "gelu":
        out = gelu(product + bias, approximate="tanh")
        yield "GELU is computed with tanh instead of erf", (out,)
        out = product + bias
        yield "GELU takes erf(x) instead of erf(x / sqrt(2))", (out / 2 * (1 + torch.erf(out)),)
        yield "GELU is computed with a sigmoid instead of erf", (out * torch.sigmoid(1.702 * out),)
        yield "GELU lacks its factor 1 / 2", (2 * gelu(out),)
    if name := {"gelu": "GELU", "relu": "ReLU"}.get(activation):
        cause = f"the bias is added after {name} instead of before"
        yield cause, (activate(product) + bias,)
        yield "the activation is left out", (product + bias,)
