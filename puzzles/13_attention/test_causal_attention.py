"""Tests of 13.3, causal attention."""

from course.challenge import challenge
from course.inputs import cases, dtypes, heads, integers, randn, rising_scores

puzzle = challenge("causal_attention", rounded=True)


@cases(
    one_tile=(1, 1, 1, 64, 64),
    batches_and_heads=(3, 2, 2, 20, 16),
    groups_of_three=(2, 6, 2, 20, 16),
    widest=(1, 1, 1, 70, 128),
    single_query=(1, 1, 1, 1, 16),
)
def test_shapes(B, H, Hkv, S, D):
    puzzle.check(*heads(B, H, Hkv, S, S, D))


def test_masks_later_keys_count_for_nothing():
    # The later a key, the higher its score: one that is late by one would win against all others.
    q, k, v = heads(1, 1, 1, 150, 150, 16)
    puzzle.check(*rising_scores(q, k), v)


@cases(one_short_of_a_tile=63, one_past_a_tile=65, past_two_tiles=129, many_tiles=300)
def test_masks(S):
    puzzle.check(*heads(1, 1, 1, S, S, 16))


@cases(d_64=64, d_128=128)
def test_masks_diagonal(D):
    puzzle.check(*heads(1, 1, 1, 150, 150, D))


def test_masks_heads_inside_rows():
    q, k, v = (randn(2, 20, H, 16, dtype="float16") for H in (4, 2, 4))
    puzzle.check(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)[:, :2])


def test_numerics_equal_scores():
    # Of queries of zeros a result is the mean of the values up to its own place.
    q, k, v = heads(1, 2, 1, 70, 70, 16, make=integers)
    puzzle.check(q * 0, k, v)


@cases(
    float16=("float16", 1, None),
    bfloat16=("bfloat16", 1, None),
    scaled_scores_of_hundreds=("float16", 8, 3.0),
)
def test_numerics(dtype, factor, scale):
    q, k, v = heads(1, 2, 1, 150, 150, 32, dtype)
    puzzle.check(q * factor, k, v, scale=scale)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    # The same 16 keys again and again, so that a narrow sum is rounded to the same side each time.
    q, k, v = (x.repeat(1, 1, 20, 1) for x in heads(1, 1, 1, 16, 16, 16, dtype))
    puzzle.check(q, k / 8, v / 4 + 1)


def test_numerics_maximum_in_the_first_tile():
    # Later tiles score less, by so much that exp of the difference overflows.
    q, k, v = heads(1, 1, 1, 200, 200, 16)
    q, k = rising_scores(q, k, slope=-1 / 30)
    puzzle.check(q * 8, k, v)


@cases(batches=(2, 128, 128, 1), many_tiles=(1, 1024, 16, 0.6))
def test_traffic(B, S, D, part):
    H, tiles = 1, S // 64
    traffic = puzzle.traffic(*heads(B, H, H, S, S, D))
    traffic.check(dot_macs=part * 2 * B * H * S * S * D)
    traffic.check(reads={"q": 1, "k": part * tiles, "v": part * tiles}, sectors=1.1, launches=1)
    traffic.check(writes=1, largest_write=B * H * S * D, total_writes=B * H * S * (D + 1))


def test_compiles():
    puzzle.compiles(*heads(1, 2, 1, 128, 128, 128, "bfloat16"))


def test_speedup():
    B, H, S, D = 1, 16, 4096, 128
    work = (2 * B * H * S * S * D, "float16")
    puzzle.race(*heads(B, H, H, S, S, D), at_least=4, operations=work)
