"""Tests of 14.2, flash decoding."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, rising_scores

puzzle = challenge("flash_decoding", rounded=True)


def decode(B, H, Hkv, T, D, dtype="float16", make=randn):
    """q (B, H, D), k and v (B, Hkv, T, D)."""
    q = make(B, H, D, dtype=dtype)
    return q, make(B, Hkv, T, D, dtype=dtype), make(B, Hkv, T, D, dtype=dtype)


@cases(
    two_groups_of_three=(2, 6, 2, 70, 16),
    one_group_of_eight=(2, 8, 1, 100, 32),
    a_head_of_keys_each=(1, 2, 2, 40, 128),
    one_key=(1, 4, 1, 1, 64),
)
def test_shapes(B, H, Hkv, T, D):
    puzzle.check(*decode(B, H, Hkv, T, D))


@cases(one_key=1, below_a_tile=17, one_short_of_a_tile=63, one_past_a_tile=65, ragged=300)
def test_masks_keys_past_the_end_count_for_nothing(T):
    # Every score is far below 0, which is the score of a key of zeros.
    q, k, v = decode(1, 2, 1, T, 16)
    puzzle.check(q.abs() + 2, -k.abs() - 2, v)


def test_masks_each_key_counts_once():
    # Queries of zeros weigh all keys alike: one that two splits take in, or none, shows at once.
    q, k, v = decode(1, 2, 1, 1025, 16, make=integers)
    puzzle.check(q * 0, k, v)


def test_masks_heads_inside_rows():
    q, _, _ = decode(2, 4, 2, 1, 16)
    k, v = (randn(2, 70, heads, 16, dtype="float16").transpose(1, 2) for heads in (2, 4))
    puzzle.check(q, k, v[:, :2])


@dtypes("float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*decode(1, 4, 2, 300, 32, dtype), scale=0.5)


@cases(in_the_first_split=-0.02, in_the_last_split=0.02)
def test_numerics_maximum(slope):
    # Scores change so much that the exponential of a difference of the wrong sign overflows.
    q, k, v = decode(1, 2, 1, 1025, 16)
    q, k = rising_scores(q, k, slope=slope)
    puzzle.check(q * 8, k, v)


@cases(few_splits=1025, many_splits=4097)
def test_numerics_maximum_moves(T):
    q, k, v = decode(1, 4, 1, T, 16)
    puzzle.check(q * 8, k, v)


def test_traffic():
    q, k, v = decode(1, 4, 1, 4096, 64)
    puzzle.traffic(q, k, v).check(
        reads={"k": 1, "v": 1},
        writes=1,
        launches=2,
        sectors={"q": 1.1, "k": 1.1, "v": 1.1},
        programs_at_least=16,
        scratch=0.1,
    )


def test_compiles():
    puzzle.compiles(*decode(1, 8, 2, 1000, 128))


def test_speedup():
    q, k, v = decode(1, 32, 8, 65536, 128)
    puzzle.race(q, k, v, at_least=6, bytes_moved=2 * k.nbytes)
