"""Results of the puzzles of chapter 19 with one step done wrong."""

import itertools
import math
from pathlib import Path

import torch

from kernelgauge.core.paths import load
from kernelgauge.diagnosis.mistakes import named

attention = load(Path(__file__).with_name("attention.py"))
softmax = load(Path(__file__).with_name("04_softmax.py"))
matmul = load(Path(__file__).with_name("matmul.py"))


def gluon_softmax(x, blocks):
    yield from softmax.softmax(x, blocks)


def gluon_matmul(a, b, blocks):
    for cause, product in matmul.along_k(a, b, blocks):
        yield cause, (product,)
    sides = [block for block in blocks if block >= 16]
    for tall, wide in itertools.product(sides, sides):
        cause = "{0} is fetched at [{2}, {1}] instead of [{1}, {2}]"
        yield cause.format("b", "k", "n"), (a @ matmul.corners_swapped(b, tall, wide),)
        yield cause.format("a", "m", "k"), (matmul.corners_swapped(a, tall, wide) @ b,)


def gluon_ws_matmul(a, b, blocks):
    yield from gluon_matmul(a, b, blocks)


def sigmoid_attention(q, k, v, blocks):
    scores, shift = q @ k.mT, math.log(k.shape[1])
    x = scores * q.shape[-1] ** -0.5
    p = torch.sigmoid(x - shift)
    yield "log(T) is not subtracted from the scores", (torch.sigmoid(x) @ v,)
    yield "log(T) is added to the scores, not subtracted", (torch.sigmoid(x + shift) @ v,)
    yield "log2(T) is subtracted, not log(T)", (torch.sigmoid(x - shift / math.log(2)) @ v,)
    yield "the scores are not divided by sqrt(D)", (torch.sigmoid(scores - shift) @ v,)
    cause = "exp2 takes scores that were not multiplied by log2(e)"
    yield cause, (torch.sigmoid((x - shift) * math.log(2)) @ v,)
    yield "the weights are those of a softmax", (torch.softmax(x, -1) @ v,)
    yield "the sigmoid has the wrong sign", ((1 - p) @ v,)
    for block in blocks:
        T = k.shape[1]
        if not 1 < block < T:
            continue
        whole = T // block * block
        cause = named(
            "the last, partial block of keys (blocks of {block}) is left out", block=block
        )
        yield cause, (p[..., :whole] @ v[:, :whole],)
        last = T - (T % block or block)
        cause = "the product of the last step's weights with its values is left out"
        yield cause, (p[..., :last] @ v[:, :last],)
        yield "the first step's values are left out", (p[..., block:] @ v[:, block:],)


def gluon_attention(q, k, v, scale, causal, blocks):
    for cause, out, _ in attention.forward(q, k, v, scale, causal, blocks=blocks):
        yield cause, (out,)
