"""Tests of 16.3, the gradients of k and v."""

import math

from course.challenge import challenge
from course.inputs import attention_saved, cases, dtypes, heads_and_dout, integers, rising_scores

puzzle = challenge("attention_dkdv", results=("dk", "dv"), rounded=True)


def check(q, k, v, dout, scale=None, causal=False):
    puzzle.check(*attention_saved(q, k, v, dout, scale, causal), scale=scale, causal=causal)


@cases(
    groups_of_three=(2, 6, 2, 20, 24, 16),
    past_two_tiles=(1, 1, 1, 150, 150, 64),
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
    check(q.abs() + 4, -k.abs() - 4, v, dout, scale=1.0)


@dtypes("float16", "bfloat16")
def test_numerics(dtype):
    check(*heads_and_dout(1, 2, 1, 70, 150, 64, dtype), causal=True)


def test_numerics_whole_numbers():
    # With scores and lse of 0 every probability is 1, and the gradients are whole numbers.
    q, dout = (integers(1, 4, 128, 16, low=-2, high=3, dtype="bfloat16") for _ in range(2))
    v = integers(1, 2, 64, 16, low=-2, high=3, dtype="bfloat16")
    lse, delta = integers(1, 4, 128) * 0, integers(1, 4, 128)
    puzzle.check_exactly(q, v * 0, v, dout, lse, delta, scale=0.5)


@cases(of_queries=(1, 128), of_heads_of_a_group=(64, 1))
def test_numerics_sums_in_float32(H, times):
    # A narrow sum of the same rows is always rounded to one side; delta keeps it from cancelling.
    q, k, v, dout = heads_and_dout(1, H, 1, 16, 16, 16)
    q, dout = ((x.abs() + 1).repeat(1, 1, times, 1) for x in (q, dout))
    q, k, v, dout, lse, delta = attention_saved(q, k, v, dout)
    puzzle.check(q, k, v, dout, lse, delta - 20)


def test_numerics_large_products_and_scores():
    # Products of v and dout that float16 does not hold; scores whose exp float32 does not hold.
    q, k, v, dout = heads_and_dout(1, 2, 2, 40, 70, 16)
    check(q, k, v + 100, dout.abs() * 10 + 100)
    check(q * 5, k, v, dout, scale=3.0, causal=True)


@cases(all_queries=(2, 4, 2, 128, 1), causal=(1, 1, 1, 768, 0.6))
def test_traffic(B, H, Hkv, S, seen):
    D, causal = 16, seen < 1
    inputs = attention_saved(*heads_and_dout(B, H, Hkv, S, S, D), causal=causal)
    traffic = puzzle.traffic(*inputs, causal=causal)
    queries = seen * math.prod(traffic.grid) / (B * Hkv)
    traffic.check(total_writes=2 * B * Hkv * S * D, dot_macs=seen * 4 * B * H * S * S * D)
    reads = {"k": 1, "v": 1} | dict.fromkeys(("q", "dout", "lse", "delta"), queries)
    traffic.check(reads=reads, writes=1, launches=1, sectors=1.1, grid_at_most=B * Hkv * S // 64)


def test_compiles():
    puzzle.compiles(*attention_saved(*heads_and_dout(1, 2, 1, 96, 96, 64, "bfloat16")), causal=True)


def test_speedup():
    B, H, S, D = 1, 16, 4096, 128
    inputs = heads_and_dout(B, H, H, S, S, D)
    # About the lse and delta of these: the truth would take the CPU minutes.
    lse, delta = inputs[0][..., 0].float() + math.log(S), inputs[3][..., 0].float()
    puzzle.race(*inputs, lse, delta, at_least=3.5, operations=(8 * B * H * S * S * D, "float16"))
