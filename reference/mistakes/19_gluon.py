"""Results of the puzzles of chapter 19 with one step done wrong."""

from pathlib import Path

from kernelgauge.core.paths import load

softmax = load(Path(__file__).with_name("04_softmax.py"))


def gluon_softmax(x, blocks):
    yield from softmax.softmax(x, blocks)
