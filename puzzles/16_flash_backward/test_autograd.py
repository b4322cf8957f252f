"""Tests of 16.4, attention with a backward pass."""

import torch

from course.challenge import broken_rule, challenge
from course.inputs import cases, heads_and_dout, rising_scores, tensor

puzzle = challenge("differentiable_attention", gradients=True, rounded=True)


def check(q, k, v, dout, scale=None, causal=False):
    puzzle.check(q, k, v, scale=scale, causal=causal, dout=dout)


@cases(
    groups_of_three=(2, 6, 2, 20, 24, 16, True),
    past_two_tiles=(1, 1, 1, 150, 150, 64, True),
    one_query=(1, 2, 2, 1, 70, 32, False),
)
def test_shapes(B, H, Hkv, S, T, D, causal):
    q, k, v, dout = heads_and_dout(B, H, Hkv, S, T, D)
    puzzle.check(q, k, v, causal=causal)
    check(q, k, v, dout, causal=causal)


@cases(one_short=(63, 63), one_past=(65, 65), more_queries=(290, 37), more_keys=(37, 200))
def test_masks(S, T):
    check(*heads_and_dout(1, 1, 1, S, T, 16), causal=True)


def test_masks_hidden_keys_count_for_nothing():
    # A key that is too late by one would win against all others.
    q, k, v, dout = heads_and_dout(1, 1, 1, 150, 150, 16)
    check(*rising_scores(q, k), v, dout, causal=True)
    # Every score is far below 0: exp(0 - lse), of a key of zeros past the end, is inf.
    check(q.abs() + 4, -k.abs() - 4, v, dout, scale=1.0)


@cases(float16=("float16", 1), bfloat16=("bfloat16", 1), scores_of_hundreds=("float16", 60))
def test_numerics(dtype, factor):
    q, k, v, dout = heads_and_dout(1, 2, 1, 70, 150, 64, dtype)
    check(q * factor, k, v, dout)


@cases(of_long_rows=(1, 128), of_many_rows=(64, 1))
def test_numerics_sums_in_float32(rows, keys):
    # A narrow sum of the same terms is always rounded to one side, and these terms do not cancel.
    q, k, v, dout = (x.abs() + 1 for x in heads_and_dout(1, 1, 1, 16, 16, 16, "bfloat16"))
    sign = tensor([1, -1] * 8, "bfloat16")[:, None]
    q, dout = (x.repeat(1, 1, rows, 1) for x in (q / 32, dout))
    check(q, *(x.repeat(1, 1, keys, 1) for x in (k * sign, v * (sign + 2))), dout)


def test_numerics_two_calls_before_the_first_goes_back():
    # What the backward pass needs belongs to its own call.
    q, k, v, dout = heads_and_dout(1, 2, 2, 24, 24, 16)
    check(q, k, v, dout, scale=1.0)
    alone = torch.stack(puzzle.subject(q, k, v, scale=1.0, dout=dout)[1:])
    inputs = [x.requires_grad_() for x in (q, k, v)]
    out = puzzle.subject.function(*inputs, scale=1.0)
    puzzle.subject.function(*inputs, scale=0.7, causal=True)
    gradients = torch.stack(torch.autograd.grad(out, inputs, dout))
    # Atomics may add the terms in another order.
    if (gradients - alone).abs().max() > 0.01 * alone.abs().max():
        raise broken_rule("a call in between changes the gradients", "keep what it needs on ctx")


@cases(all_keys=(2, 4, 2, 128, 16, 1), causal=(1, 1, 1, 768, 16, 0.6))
def test_traffic(B, H, Hkv, S, D, seen):
    q, k, v, dout = heads_and_dout(B, H, Hkv, S, S, D)
    traffic = puzzle.traffic(q, k, v, causal=seen < 1, dout=dout)
    traffic.check(sectors=1.1, largest_write=B * H * S * D, dot_macs=seen * 9 * B * H * S * S * D)


def test_traffic_kept_for_the_backward_pass():
    q, k, v, dout = heads_and_dout(2, 4, 2, 40, 50, 16)
    puzzle.saved_for_backward(q, k, v, dout=dout, at_most=4 * 2 * 4 * 40)


def test_compiles():
    q, k, v, dout = heads_and_dout(1, 2, 1, 128, 128, 64, "bfloat16")
    puzzle.compiles(q, k, v, causal=True, dout=dout)


def test_speedup():
    B, H, S, D = 1, 16, 4096, 64
    q, k, v, dout = heads_and_dout(B, H, H, S, S, D)
    operations = (7 * 2 * B * H * S * S * D, "float16")  # two products forward, five back
    puzzle.race(q, k, v, dout=dout, at_least=1.5, operations=operations, baseline="eager_attention")
