"""Results of the puzzles of chapter 18 with one step done wrong."""

import itertools
from pathlib import Path

import torch

from kernelgauge.core.paths import load
from kernelgauge.diagnosis.mistakes import half_precisions, named
from kernelgauge.words.fault import note

matmul = load(Path(__file__).with_name("matmul.py"))


def all_reduce(shards, blocks):
    R = len(shards)
    for name, cast in half_precisions():
        total = shards[0]
        for x in shards[1:]:
            total = cast(total + x)
        yield note("sum-in-few-bits", dtype=name), [total] * R
    total = sum(shards)
    yield "every rank leaves out its own shard", [total - own for own in shards]
    yield "every rank counts its own shard twice", [total + own for own in shards]
    yield "the sum is divided by the number of ranks", [total / R] * R


def two_shot_all_reduce(shards, blocks):
    yield from all_reduce(shards, blocks)
    N, R = shards[0].numel(), len(shards)
    total, flat = sum(shards).flatten(), [x.flatten() for x in shards]
    for part in {-(-N // R), N // R, -(-N // R // 16) * 16} - {0}:
        owner = torch.arange(N) // part
        fetched = [
            torch.where(owner == rank, total, torch.stack(flat)[owner.clamp(max=R - 1), range(N)])
            for rank in range(R)
        ]
        cause = "slices are fetched from the other ranks' shards instead of their results"
        yield cause, [x.view(shards[0].shape) for x in fetched]


def average_gradients(grads, blocks):
    R = len(grads)
    counts = [(~x.isfinite()).sum() for x in grads]
    healthy = [x for x, count in zip(grads, counts, strict=True) if count == 0]
    unchanged = [None] * R
    total = sum(healthy, torch.zeros_like(grads[0]))
    cause = "the sum is divided by all ranks instead of the healthy ones"
    yield cause, [total / R] * R + unchanged
    yield "the sum is not divided by the number of healthy ranks", [total] * R + unchanged
    cause = "a faulty rank's gradients are multiplied by 0, and 0 * NaN is NaN"
    weighted = sum(x * (count == 0) for x, count in zip(grads, counts, strict=True))
    yield cause, [weighted / max(len(healthy), 1)] * R + unchanged
    cause = "faulty ranks are not left out"
    yield cause, [sum(grads) / R] * R + unchanged
    cause = "single elements are left out, instead of all of a faulty rank"
    finite = [x.nan_to_num(0, 0, 0) for x in grads]
    yield cause, [sum(finite) / max(len(healthy), 1)] * R + unchanged
    yield cause, [sum(finite) / R] * R + unchanged
    for name, cast in half_precisions():
        summed = torch.zeros_like(grads[0])
        for x in healthy:
            summed = cast(summed + x)
        cause = note("sum-in-few-bits", dtype=name)
        yield cause, [summed / max(len(healthy), 1)] * R + unchanged


def all_gather_matmul(shards, weights, blocks):
    R, whole = len(shards), torch.cat(shards)
    rotated = [torch.cat(shards[rank:] + shards[:rank]) for rank in range(R)]
    cause = "the rows of the own shard come first in each result, instead of those of rank 0"
    yield cause, [rows @ weight for rows, weight in zip(rotated, weights, strict=True)]
    orders = [[(2 * rank - place) % R for place in range(R)] for rank in range(R)]
    cause = "the rows of the ranks are in another order: peer i of rank r is rank r + i modulo R"
    yield (
        cause,
        [
            torch.cat([shards[place] for place in order]) @ weight
            for order, weight in zip(orders, weights, strict=True)
        ],
    )
    for rank, weight in enumerate(weights):
        yield named("every rank multiplies by weights[{rank}]", rank=rank), [whole @ weight] * R
    for rank, x in enumerate(shards):
        yield (
            named("the rows of shards[{rank}] stand for those of all", rank=rank),
            [torch.cat([x] * R) @ weight for weight in weights],
        )
    own = zip(shards, weights, strict=True)
    yield (
        "each rank's own rows stand for those of all",
        [torch.cat([x] * R) @ weight for x, weight in own],
    )
    for (name, cast), block in itertools.product(half_precisions(), blocks):
        results = [torch.zeros(len(whole), weight.shape[1]) for weight in weights]
        parts = zip(
            whole.split(block, 1), *(weight.split(block) for weight in weights), strict=True
        )
        for part, *others in parts:
            results = [cast(x + part @ y) for x, y in zip(results, others, strict=True)]
        yield note("sum-in-few-bits", dtype=name), results
    of_ranks = [matmul.along_k(whole, weight, blocks, ("shards", "weights")) for weight in weights]
    for found in zip(*of_ranks, strict=True):
        yield found[0][0], [product for _, product in found]
