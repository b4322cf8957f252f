"""Tests of 13.5, sliding window attention."""

from course.challenge import challenge
from course.inputs import cases, dtypes, heads, integers, randn, rising_scores

puzzle = challenge("sliding_window_attention", rounded=True)


@cases(
    batches_and_heads=(3, 2, 2, 20, 16, 5),
    groups_of_three=(2, 6, 2, 20, 16, 7),
    single_query=(1, 1, 1, 1, 16, 1),
)
def test_shapes(B, H, Hkv, S, D, window):
    puzzle.check(*heads(B, H, Hkv, S, S, D), window)


@cases(narrow=1, less_than_a_tile=20, more_than_a_tile=100)
def test_masks_tiles_in_which_a_row_sees_nothing(window):
    # The maximum of such a row is -inf, and -inf less -inf is NaN.
    q, k, v = heads(1, 1, 1, 200, 200, 16)
    puzzle.check(q.abs() + 2, -k.abs() - 2, v, window)


@cases(later=0.1, earlier=-0.1)
def test_masks_keys_outside_count_for_nothing(slope):
    # A key that is too late, or too early, by one would win against all others.
    q, k, v = heads(1, 1, 1, 150, 150, 16)
    puzzle.check(*rising_scores(q, k, slope), v, 70)


@cases(
    one_short_of_a_tile=(63, 20, 16),
    one_past_a_tile=(65, 20, 16),
    window_one_past_a_tile=(200, 65, 16),
    whole_tiles_inside_the_window=(290, 200, 16),
    window_one_short_of_all=(150, 149, 16),
    window_larger_than_all=(150, 1000, 16),
    both_edges_of_wide_heads=(150, 90, 128),
)
def test_masks(S, window, D):
    puzzle.check(*heads(1, 1, 1, S, S, D), window)


def test_masks_heads_inside_rows():
    q, k, v = (randn(2, 20, H, 16, dtype="float16") for H in (4, 2, 4))
    puzzle.check(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)[:, :2], 7)


def test_numerics_equal_scores():
    # Of queries of zeros a result is the mean of the values in its window.
    q, k, v = heads(1, 2, 1, 70, 70, 16, make=integers)
    puzzle.check(q * 0, k, v, 32)


@cases(
    float16=("float16", 1, None),
    bfloat16=("bfloat16", 1, None),
    scaled_scores_of_hundreds=("float16", 8, 3.0),
)
def test_numerics(dtype, factor, scale):
    q, k, v = heads(1, 2, 1, 130, 130, 32, dtype)
    puzzle.check(q * factor, k, v, 90, scale=scale)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    # The same 16 keys again and again, so that a narrow sum is rounded to the same side each time.
    q, k, v = (x.repeat(1, 1, 16, 1) for x in heads(1, 1, 1, 16, 16, 16, dtype))
    puzzle.check(q, k / 8, v / 4 + 1, 240)


@cases(batches=(2, 128, 128, 1), many_tiles=(1, 1024, 16, 0.25))
def test_traffic(B, S, D, part):
    H, tiles = 1, S // 64
    traffic = puzzle.traffic(*heads(B, H, H, S, S, D), 128)
    traffic.check(dot_macs=part * 2 * B * H * S * S * D)
    traffic.check(reads={"q": 1, "k": part * tiles, "v": part * tiles}, sectors=1.1, launches=1)
    traffic.check(writes=1, largest_write=B * H * S * D, total_writes=B * H * S * (D + 1))


def test_compiles():
    puzzle.compiles(*heads(1, 2, 1, 128, 128, 128, "bfloat16"), 50)


def test_speedup():
    B, H, S, D, window = 1, 16, 4096, 128, 512
    seen = S * window - window * (window - 1) // 2
    work = (4 * B * H * seen * D, "float16")
    puzzle.race(*heads(B, H, H, S, S, D), window, at_least=14, operations=work)
