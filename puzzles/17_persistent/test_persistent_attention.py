"""Tests of 17.4, persistent attention."""

from course.challenge import challenge
from course.inputs import cases, dtypes, heads, multiprocessors, rising_scores

puzzle = challenge("persistent_attention", rounded=True)
MOST = 4 * multiprocessors()  # programs of a launch


@cases(
    one_tile_more_than_programs=(1, MOST + 1, 1, 16, 20, 16),
    many_tiles_a_program=(MOST - 1, 10, 5, 16, 20, 16),
    many_tiles_of_many_lengths=(1, 12, 1, 300, 150, 16),
    groups_of_three=(2, 6, 2, 20, 24, 16),
    one_query=(1, 2, 2, 1, 70, 32),
    single_query_and_key=(1, 1, 1, 1, 1, 16),
)
def test_shapes(B, H, Hkv, S, T, D):
    inputs = heads(B, H, Hkv, S, T, D)
    puzzle.check(*inputs)
    puzzle.check(*inputs, causal=True)


@cases(
    one_short_of_a_tile=(63, 63),
    one_past_a_tile=(65, 65),
    more_queries_than_keys=(150, 37),
    more_keys_than_queries=(37, 300),
)
def test_masks(S, T):
    inputs = heads(1, 1, 1, S, T, 16)
    puzzle.check(*inputs)
    puzzle.check(*inputs, causal=True)


def test_masks_six_multiprocessors():
    with puzzle.given(multiprocessors=6):  # no power of two, as on most GPUs
        puzzle.check(*heads(1, 61, 1, 16, 20, 16))


def test_masks_hidden_keys_count_for_nothing():
    # A key that is too late by one would win against all others.
    q, k, v = heads(1, 1, 1, 150, 150, 16)
    puzzle.check(*rising_scores(q, k), v, causal=True)
    # Every score is far below 0, which is the score of a key of zeros past the end.
    q, k, v = heads(1, 1, 1, 20, 70, 16)
    puzzle.check(q.abs() + 2, -k.abs() - 2, v)


def test_numerics_nothing_stays_from_the_tile_before():
    # The first query of each head sees one key, of much smaller scores than the last query's.
    q, k, v = heads(1, 2 * MOST + 1, 1, 20, 24, 16)
    puzzle.check(*rising_scores(q, k, slope=1), v, causal=True)


@cases(
    float16=("float16", 1, None),
    bfloat16=("bfloat16", 1, None),
    scaled_scores_of_hundreds=("float16", 3, 3.0),
)
def test_numerics(dtype, factor, scale):
    q, k, v = heads(1, 2, 1, 70, 150, 64, dtype)
    puzzle.check(q * factor, k, v, scale=scale, causal=True)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    q, k, v = heads(1, 1, 1, 16, 1024, 16, dtype)
    puzzle.check(q, k / 8, v / 4 + 1)


@cases(all_keys=(5, 4, 2, 128, 16, 1), causal=(1, 2, 1, 768, 16, 0.6))
def test_traffic(B, H, Hkv, S, D, seen):
    traffic = puzzle.traffic(*heads(B, H, Hkv, S, S, D), causal=seen < 1)
    traffic.check(dot_macs=seen * 2 * B * H * S * S * D, grid_at_most=MOST)
    tiles = B * H * S // 64
    keys = seen * tiles / (B * Hkv)
    traffic.check(reads={"q": 1, "k": keys, "v": keys}, writes=1, launches=1, sectors=1.1)
    # Beside the result, each tile and program may count the tiles that are taken.
    traffic.check(total_writes=B * H * S * D + tiles + MOST)


def test_compiles():
    puzzle.compiles(*heads(1, 2, 1, 128, 128, 64, "bfloat16"), causal=True)


def test_speedup():
    B, H, S, D = 1, 16, 4096, 128
    operations = (2 * B * H * S * S * D, "float16")
    puzzle.race(*heads(B, H, H, S, S, D), causal=True, at_least=4.5, operations=operations)
