"""Tests of 13.1, attention scores."""

from course.challenge import challenge
from course.inputs import cases, dtypes, heads, randn, rising_scores

puzzle = challenge("attention_scores", rounded=True)


@cases(
    one_tile=(1, 1, 1, 64, 64, 64),
    groups_of_three=(2, 6, 2, 20, 24, 16),
    widest=(1, 1, 1, 40, 100, 128),
    one_query=(1, 2, 2, 1, 70, 32),
    one_key=(1, 2, 2, 70, 1, 32),
    single_query_and_key=(1, 1, 1, 1, 1, 16),
)
def test_shapes(B, H, Hkv, S, T, D):
    puzzle.check(*heads(B, H, Hkv, S, T, D)[:2])


def test_masks_keys_past_the_end_count_for_nothing():
    # Every score is far below 0, the score of a key of zeros: exp of the difference is 0.
    q, k, _ = heads(1, 1, 1, 20, 70, 16)
    puzzle.check(q.abs() + 5, -k.abs() - 5)


@cases(
    one_short_of_a_tile=(63, 63),
    one_past_a_tile=(65, 65),
    more_queries_than_keys=(290, 37),
    more_keys_than_queries=(70, 200),
)
def test_masks(S, T):
    puzzle.check(*heads(1, 2, 1, S, T, 16)[:2])


def test_masks_heads_inside_rows():
    q, k = randn(2, 20, 4, 16, dtype="float16"), randn(2, 24, 2, 16, dtype="float16")
    puzzle.check(q.transpose(1, 2), k.transpose(1, 2))


def test_numerics_equal_scores():
    # Of queries of zeros every p is 1 / T.
    q, k, _ = heads(1, 2, 1, 40, 128, 16)
    puzzle.check(q * 0, k)


@cases(
    float16=("float16", 1, None),
    bfloat16=("bfloat16", 1, None),
    scaled_scores_of_hundreds=("float16", 8, 3.0),
)
def test_numerics(dtype, factor, scale):
    q, k, _ = heads(1, 2, 1, 70, 150, 64, dtype)
    puzzle.check(q * factor, k, scale=scale)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    # The same 16 keys again and again, so that a narrow sum is rounded to the same side each time.
    q, k, _ = heads(1, 1, 1, 16, 16, 16, dtype)
    puzzle.check(q, (k / 8).repeat(1, 1, 128, 1))


@cases(rising=0.02, falling=-0.02)
def test_numerics_maximum_moves(slope):
    # From tile to tile by so much that exp of the difference overflows.
    q, k, _ = heads(1, 1, 1, 20, 300, 16)
    q, k = rising_scores(q, k, slope)
    puzzle.check(q * 8, k)


def test_traffic():
    B, H, S, T, D = 2, 1, 256, 192, 64
    traffic = puzzle.traffic(*heads(B, H, H, S, T, D)[:2])
    traffic.check(reads={"q": 1, "k": 2 * S // 64, "result": 0}, launches=1, sectors=1.1)
    traffic.check(writes=1, total_writes=B * H * S * T)


def test_compiles():
    puzzle.compiles(*heads(1, 2, 1, 128, 128, 64)[:2])


def test_speedup():
    B, H, S, D = 1, 16, 4096, 64
    q, k, _ = heads(B, H, H, S, S, D)
    puzzle.race(q, k, at_least=1.4, bytes_moved=2 * B * H * S * (S + 2 * D))
