"""Tests of 13.4, grouped-query attention."""

from course.challenge import challenge
from course.inputs import cases, dtypes, heads, integers, randn, rising_scores

puzzle = challenge("grouped_query_attention", rounded=True)


@cases(
    two_groups_of_two=(1, 4, 2, 70, 150, 16, False),
    two_groups_of_three_causal=(2, 6, 2, 20, 24, 16, True),
    one_key_causal=(1, 2, 2, 70, 1, 32, True),
    single_query_and_key=(1, 1, 1, 1, 1, 16, False),
)
def test_shapes(B, H, Hkv, S, T, D, causal):
    puzzle.check(*heads(B, H, Hkv, S, T, D), causal=causal)


@cases(full=False, causal=True)
def test_masks_keys_past_the_end_count_for_nothing(causal):
    # Every score is far below 0, which is the score of a key of zeros.
    q, k, v = heads(1, 1, 1, 20, 70, 16)
    puzzle.check(q.abs() + 2, -k.abs() - 2, v, causal=causal)


@cases(more_queries=(200, 100), more_keys=(100, 200))
def test_masks_later_keys_count_for_nothing(S, T):
    # The later a key, the higher its score: one that is late by one would win against all others.
    q, k, v = heads(1, 1, 1, S, T, 16)
    puzzle.check(*rising_scores(q, k), v, causal=True)


@cases(
    one_short_of_a_tile=(63, 63, 16, False),
    one_past_a_tile_causal=(65, 65, 16, True),
    more_queries_than_keys_causal=(290, 37, 16, True),
    more_keys_than_queries_causal=(37, 300, 16, True),
    keys_end_inside_the_diagonal=(150, 100, 16, True),
    wide_tiles_on_the_diagonal=(150, 150, 128, True),
)
def test_masks(S, T, D, causal):
    puzzle.check(*heads(1, 1, 1, S, T, D), causal=causal)


def test_masks_heads_inside_rows():
    q, k, v = (randn(2, *size, 16, dtype="float16") for size in ((20, 4), (24, 2), (24, 4)))
    puzzle.check(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)[:, :2])


def test_numerics_equal_scores():
    # Of queries of zeros every result is the mean of the values.
    q, k, v = heads(1, 2, 1, 40, 128, 16, make=integers)
    puzzle.check(q * 0, k, v)


@cases(
    float16=("float16", 1, None, False),
    bfloat16_causal=("bfloat16", 1, None, True),
    scaled_scores_of_hundreds=("float16", 8, 3.0, False),
)
def test_numerics(dtype, factor, scale, causal):
    q, k, v = heads(1, 2, 1, 70, 150, 32, dtype)
    puzzle.check(q * factor, k, v, scale=scale, causal=causal)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    # The same 16 keys again and again, so that a narrow sum is rounded to the same side each time.
    q, k, v = heads(1, 1, 1, 16, 16, 16, dtype)
    puzzle.check(q, (k / 8).repeat(1, 1, 64, 1), (v / 4 + 1).repeat(1, 1, 64, 1))


@cases(full_d_128=(2, 2, 1, 128, 128, 1, False), causal=(1, 2, 1, 1024, 16, 0.6, True))
def test_traffic(B, H, Hkv, S, D, part, causal):
    loads = part * H / Hkv * S / 64
    traffic = puzzle.traffic(*heads(B, H, Hkv, S, S, D), causal=causal)
    traffic.check(dot_macs=part * 2 * B * H * S * S * D)
    traffic.check(reads={"q": 1, "k": loads, "v": loads}, writes=1, launches=1, sectors=1.1)
    traffic.check(largest_write=B * H * S * D, total_writes=B * H * S * (D + 1))


def test_compiles():
    puzzle.compiles(*heads(1, 2, 1, 128, 128, 128, "bfloat16"), causal=True)


def test_speedup():
    B, H, Hkv, S, D = 1, 16, 4, 4096, 128
    work = (4 * B * H * S * S * D, "float16")
    puzzle.race(*heads(B, H, Hkv, S, S, D), at_least=1.8, operations=work)
