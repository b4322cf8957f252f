"""Tests of 16.2, the gradient of q."""

import math

from course.challenge import challenge
from course.inputs import attention_saved, cases, dtypes, heads_and_dout, integers, rising_scores

puzzle = challenge("attention_dq", rounded=True)


def check(q, k, v, dout, scale=None, causal=False):
    puzzle.check(*attention_saved(q, k, v, dout, scale, causal), scale=scale, causal=causal)


@cases(
    groups_of_three=(2, 6, 2, 20, 128, 16),
    widest=(1, 2, 1, 40, 100, 128),
    one_query=(1, 2, 2, 1, 70, 32),
)
def test_shapes(B, H, Hkv, S, T, D):
    inputs = heads_and_dout(B, H, Hkv, S, T, D)
    check(*inputs)
    check(*inputs, causal=True)


@cases(one_short=(63, 63), one_past=(65, 65), more_queries=(290, 37), more_keys=(37, 200))
def test_masks(S, T):
    inputs = heads_and_dout(1, 1, 1, S, T, 16)
    check(*inputs)
    check(*inputs, causal=True)


def test_masks_hidden_keys_count_for_nothing():
    # A key that is too late by one would win against all others.
    q, k, v, dout = heads_and_dout(1, 1, 1, 150, 150, 16)
    check(*rising_scores(q, k), v, dout, causal=True)
    # Every score is far below 0: exp(0 - lse), of a key of zeros past the end, is inf.
    q, k, v, dout = heads_and_dout(1, 1, 1, 150, 70, 16)
    check(q.abs() + 4, -k.abs() - 4, v, dout, scale=1.0)
    check(q.abs() + 4, -k.abs() - 4, v, dout, scale=1.0, causal=True)


@dtypes("float16", "bfloat16")
def test_numerics(dtype):
    check(*heads_and_dout(1, 2, 1, 70, 150, 64, dtype), causal=True)


def test_numerics_whole_numbers():
    # With scores and lse of 0 every probability is 1, and the gradients are whole numbers.
    k, v = (integers(1, 2, 128, 16, low=-2, high=3, dtype="bfloat16") for _ in range(2))
    dout = integers(1, 4, 64, 16, low=-2, high=3, dtype="bfloat16")
    lse, delta = integers(1, 4, 64) * 0, integers(1, 4, 64)
    puzzle.check_exactly(dout * 0, k, v, dout, lse, delta, scale=0.5)


def test_numerics_large_products_and_scores():
    # Products of v and dout that float16 does not hold; scores whose exp float32 does not hold.
    q, k, v, dout = heads_and_dout(1, 2, 2, 40, 70, 16)
    check(q, k, v + 100, dout.abs() * 10 + 100)
    check(q * 5, k, v, dout, scale=3.0, causal=True)


@cases(all_keys=(2, 4, 2, 128, 1), causal=(1, 1, 1, 768, 0.6))
def test_traffic(B, H, Hkv, S, seen):
    D, causal = 16, seen < 1
    inputs = attention_saved(*heads_and_dout(B, H, Hkv, S, S, D), causal=causal)
    traffic = puzzle.traffic(*inputs, causal=causal)
    keys = seen * math.prod(traffic.grid) / (B * Hkv)
    traffic.check(writes=1, launches=1, grid_at_most=B * H * S // 64)
    traffic.check(total_writes=B * H * S * D, dot_macs=seen * 3 * B * H * S * S * D)
    reads = {"k": keys, "v": keys} | dict.fromkeys(("q", "dout", "lse", "delta"), 1)
    traffic.check(reads=reads, sectors=1.1)


def test_compiles():
    inputs = heads_and_dout(1, 2, 1, 128, 128, 64, "bfloat16")
    puzzle.compiles(*attention_saved(*inputs), causal=True)


def test_speedup():
    B, H, S, D = 1, 16, 4096, 128
    inputs = heads_and_dout(B, H, H, S, S, D)
    # About the lse and delta of these: the truth would take the CPU minutes.
    lse, delta = inputs[0][..., 0].float() + math.log(S), inputs[3][..., 0].float()
    puzzle.race(*inputs, lse, delta, at_least=4, operations=(6 * B * H * S * S * D, "float16"))
