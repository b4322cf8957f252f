"""Tests of 19.7, Gluon attention."""

from course.challenge import broken_rule, challenge
from course.inputs import cases, dtypes, heads, multiprocessors, rising_scores

puzzle = challenge("gluon_attention", rounded=True, capability=(9, 0))


@cases(
    many_blocks=(1, 1, 1, 128, 1024, 64),
    many_tiles=(1, multiprocessors() + 2, 1, 200, 300, 64),
    groups_of_three=(2, 6, 2, 20, 24, 64),
    widest=(1, 1, 1, 200, 400, 128),
    single_query_and_key=(1, 1, 1, 1, 1, 64),
)
def test_shapes(B, H, Hkv, S, T, D):
    puzzle.check(*heads(B, H, Hkv, S, T, D))
    puzzle.check(*heads(B, H, Hkv, S, T, D), causal=True)


@cases(one_short=(127, 127), one_past=(129, 129), more_queries=(300, 70), more_keys=(70, 300))
def test_masks(S, T):
    puzzle.check(*heads(1, 1, 1, S, T, 64))
    puzzle.check(*heads(1, 1, 1, S, T, 64), causal=True)


def test_masks_six_multiprocessors():
    # On most GPUs their number is not a power of two.
    with puzzle.given(multiprocessors=6):
        puzzle.check(*heads(1, 13, 1, 140, 140, 64))
        puzzle.check(*heads(1, 13, 1, 140, 140, 64), causal=True)


def test_masks_hidden_keys_count_for_nothing():
    # A key that is too late by one would win against all others.
    q, k, v = heads(1, 1, 1, 300, 300, 64)
    puzzle.check(*rising_scores(q, k), v, causal=True)
    # Every score is far below 0, which is the score of a key of zeros past the end.
    q, k, v = heads(1, 1, 1, 20, 140, 64)
    puzzle.check(q.abs() / 2 + 1, -k.abs() - 1, v)


@cases(**{f"many_rounds_{number}": number for number in range(6)})
def test_masks_other_orders(number):
    # Another case runs in another order: copies land, and products end, at other times.
    inputs = heads(1, multiprocessors() + 1, 1, 130 + number, 700, 64)
    puzzle.check(*inputs, causal=number % 2 == 1)


@cases(float16=("float16", 1, None), bfloat16=("bfloat16", 1, None), steep=("float16", 3, 1.0))
def test_numerics(dtype, factor, scale):
    q, k, v = heads(1, 2, 1, 70, 300, 64, dtype)
    puzzle.check(q * factor, k, v, scale=scale)


@cases(rises=0.02, falls=-0.02)
def test_numerics_maximum_moves_from_block_to_block(slope):
    q, k, v = heads(1, 1, 1, 40, 700, 64)
    puzzle.check(*rising_scores(q, k, slope), v)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    q, k, v = heads(1, 1, 1, 16, 1024, 64, dtype)
    puzzle.check(q, k / 8, v / 4 + 1)


@cases(all_keys=(2, 4, 2, 256, 1), causal=(1, 2, 1, 768, 0.6))
def test_traffic(B, H, Hkv, S, seen):
    traffic = puzzle.traffic(*heads(B, H, Hkv, S, S, 64), causal=seen < 1)
    keys = seen * H // Hkv * S / 64
    traffic.check(reads={"q": 1, "k": keys, "v": keys}, writes=1, launches=1, sectors=1.1)
    traffic.check(total_writes=B * H * S * 64, dot_macs=seen * 2 * B * H * S * S * 64)
    if not traffic.ahead:
        raise broken_rule("no copy is under way while a product is computed")


@cases(d_64=("float16", 64, True), d_128=("bfloat16", 128, False))
def test_compiles(dtype, D, causal):
    asked = ["TMA loads", "mbarriers", "wgmma", "wgmma in flight", "setmaxnreg"]
    asked.append("overlap of most exponentials with wgmma")
    inputs = heads(1, 16, 16, 4096, 4096, D, dtype)
    puzzle.compiles(*inputs, causal=causal, targets=["sm_90"], asked=asked, spills=0)


def test_speedup():
    inputs = heads(1, 16, 16, 4096, 4096, 128, "bfloat16")
    puzzle.race(*inputs, at_least=2.5, operations=(4 * 16 * 4096**2 * 128, "bfloat16"))
