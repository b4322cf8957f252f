"""What 16.3, the gradients of k and v, must do to be solved."""

import math

from judge.challenge import challenge
from judge.inputs import attention_saved, cases, dtypes, heads, integers, randn, tensor, uniform

puzzle = challenge("attention_dkdv", results=("dk", "dv"), rounded=True)


def four(*sizes, dtype="float16"):
    """q, k, v and dout."""
    q, k, v = heads(*sizes, dtype=dtype)
    return q, k, v, randn(*q.shape, dtype=dtype)


def check(q, k, v, dout, scale=None, causal=False):
    puzzle.check(*attention_saved(q, k, v, dout, scale, causal), scale=scale, causal=causal)


@cases(
    batches_and_heads=(3, 2, 2, 20, 24, 16),
    whole_tiles_of_two_groups=(1, 4, 2, 64, 64, 32),
    groups_of_three=(2, 6, 2, 20, 24, 16),
    widest=(1, 2, 1, 40, 100, 128),
    one_query=(1, 2, 2, 1, 70, 32),
    one_key=(1, 2, 2, 70, 1, 32),
    single_query_and_key=(1, 1, 1, 1, 1, 16),
)
def test_shapes(B, H, Hkv, S, T, D):
    inputs = four(B, H, Hkv, S, T, D)
    check(*inputs)
    check(*inputs, causal=True)


@cases(
    one_short_of_a_tile=(63, 63),
    one_past_a_tile=(65, 65),
    more_queries_than_keys=(290, 37),
    more_keys_than_queries=(37, 200),
)
def test_masks(S, T):
    inputs = four(1, 2, 1, S, T, 16)
    check(*inputs)
    check(*inputs, causal=True)


def test_masks_later_keys_count_for_nothing():
    # A key that is too late by one would win against all others.
    q, k, v, dout = four(1, 2, 1, 150, 150, 16)
    ramp = tensor(range(150), "float16")[:, None] / 10
    check(q.abs() + 0.5, k / 5 + ramp, v, dout, causal=True)


def test_masks_diagonal():
    # Tiles of queries may be longer than those of keys, and begin before them.
    check(*four(1, 1, 1, 150, 150, 64), causal=True)


def test_masks_past_the_end_counts_for_nothing():
    # Every score is far below 0: exp(0 - lse), of a key of zeros, is inf.
    q, k, v, dout = four(1, 1, 1, 20, 70, 16)
    check(q.abs() + 4, -k.abs() - 4, v, dout, scale=1.0)


@dtypes("float16", "bfloat16")
def test_numerics_whole_numbers(dtype):
    # With scores and lse of 0 every probability is 1, and the gradients are whole numbers.
    q, dout = (integers(1, 4, 70, 16, low=-2, high=3, dtype=dtype) for _ in range(2))
    v = integers(1, 2, 40, 16, low=-2, high=3, dtype=dtype)
    lse, delta = tensor([[[0.0] * 70] * 4]), integers(1, 4, 70)
    puzzle.check_exactly(q, v * 0, v, dout, lse, delta, scale=0.5)
    puzzle.check_exactly(q, v * 0, v, dout, lse, delta, scale=0.5, causal=True)


@dtypes("float16", "bfloat16")
def test_numerics(dtype):
    check(*four(1, 2, 1, 70, 150, 64, dtype=dtype), causal=True)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    # The same 16 queries again and again, so that a narrow sum is rounded to the same side each
    # time. As delta is not theirs, the terms do not cancel.
    q, k, v, dout = four(1, 1, 1, 16, 16, 16, dtype=dtype)
    q, dout = (x.repeat(1, 1, 128, 1) for x in (q.abs() + 1, dout.abs() + 1))
    q, k, v, dout, lse, delta = attention_saved(q, k, v, dout)
    puzzle.check(q, k, v, dout, lse, delta - 20)


def test_numerics_group_summed_in_float32():
    q, k, v, dout = four(1, 64, 1, 20, 24, 16)
    q, k, v, dout, lse, delta = attention_saved(q.abs() + 1, k, v, dout.abs() + 1)
    puzzle.check(q, k, v, dout, lse, delta - 20)


def test_numerics_products_beyond_the_range_of_float16():
    q, k, v, dout = four(1, 2, 2, 40, 70, 16)
    check(q, k, v + 100, dout.abs() * 10 + 100)


def test_numerics_scores_of_hundreds():
    q, k, v, dout = four(1, 2, 2, 40, 100, 16)
    check(q * 30, k, v, dout, causal=True)


def test_numerics_scale():
    check(*four(1, 2, 2, 40, 70, 32), scale=3.0)


@cases(all_queries=(2, 4, 2, 128, False), causal=(1, 1, 1, 768, True))
def test_traffic(B, H, Hkv, S, causal):
    D, seen = 16, 0.6 if causal else 1
    inputs = attention_saved(*four(B, H, Hkv, S, S, D), causal=causal)
    traffic = puzzle.traffic(*inputs, causal=causal)
    queries = seen * math.prod(traffic.grid) / (B * Hkv)
    traffic.check(
        reads={"k": 1, "v": 1, "q": queries, "dout": queries, "lse": queries, "delta": queries},
        writes=1,
        launches=1,
        sectors=1.1,
        grid_at_most=B * Hkv * S // 64,
        total_writes=2 * B * Hkv * S * D,
        dot_macs=seen * 4 * B * H * S * S * D,
    )


@dtypes("float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*attention_saved(*four(1, 2, 1, 128, 128, 64, dtype=dtype)), causal=True)


def test_speedup():
    B, H, S, D = 1, 16, 4096, 128
    operations = 2 * 4 * B * H * S * S * D
    # About what belongs to them: the truth would take the CPU minutes.
    lse, delta = uniform(B, H, S) + math.log(S), randn(B, H, S)
    inputs = (*four(B, H, H, S, S, D), lse, delta)
    puzzle.race(*inputs, at_least=3.5, operations=(operations, "float16"))
