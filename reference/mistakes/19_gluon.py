"""Results of the puzzles of chapter 19 with one step done wrong."""

import itertools
from pathlib import Path

from kernelgauge.core.paths import load

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


def gluon_attention(q, k, v, scale, causal, blocks):
    for cause, out, _ in attention.forward(q, k, v, scale, causal, blocks=blocks):
        yield cause, (out,)
