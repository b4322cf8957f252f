"""Tests of 14.3, paged attention."""

from course.challenge import challenge
from course.inputs import cases, dtypes, paged_cache, randn

puzzle = challenge("paged_attention", rounded=True)


def paged(lengths, *, page=16, H=4, Hkv=2, D=16, dtype="float16", **how):
    """q, key_cache, value_cache, block_tables and lengths; unused rows hold NaN."""
    q = randn(len(lengths), H, D, dtype=dtype)
    return q, *paged_cache(lengths, page, Hkv, D, dtype, **how)


@cases(
    two_groups_of_three=(6, 2, 16),
    one_group_of_eight=(8, 1, 32),
    a_head_of_keys_each=(2, 2, 128),
)
def test_shapes(H, Hkv, D):
    puzzle.check(*paged([40, 70], H=H, Hkv=Hkv, D=D))


@cases(
    pages_of_16=(16, [1, 15, 16, 17]),
    pages_of_64=(64, [64, 65, 1, 300]),
    whole_pages=(16, [64, 128]),
    longer_than_a_tile=(16, [300, 3, 129]),
)
def test_masks(page, lengths):
    puzzle.check(*paged(lengths, page=page))


def test_masks_keys_past_the_end_count_for_nothing():
    # Every score is far below 0, which is the score of a key of zeros.
    q, keys, *others = paged([17, 65, 5])
    puzzle.check(q.abs() + 2, -keys.abs() - 2, *others)


def test_masks_two_sequences_share_a_page():
    q, keys, values, tables, lengths = paged([40, 70])
    tables[1, :2] = tables[0, :2]
    puzzle.check(q, keys.nan_to_num(), values.nan_to_num(), tables, lengths)


def test_numerics_each_key_counts_once():
    # Queries of zeros weigh all keys alike: the result is the mean of the values.
    q, keys, values, tables, lengths = paged([128, 300])
    puzzle.check(q * 0, keys, values.round(), tables, lengths)


@dtypes("float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*paged([300, 80], dtype=dtype), scale=0.5)


def test_numerics_maximum_moves():
    q, *others = paged([700])
    puzzle.check(q * 8, *others)


def test_traffic():
    q, keys, values, tables, lengths = paged([100, 33, 256], H=4, Hkv=1, D=64)
    part = sum(-(-n // 16) for n in (100, 33, 256)) / len(keys)
    puzzle.traffic(q, keys, values, tables, lengths).check(
        reads={"key_cache": part, "value_cache": part}, writes=1, launches=2, scratch=0.1
    )


def test_traffic_of_longer_sequences():
    inputs = paged([1000], H=2, Hkv=1)
    part = 63 / len(inputs[1])
    puzzle.traffic(*inputs).check(reads={"key_cache": part, "value_cache": part}, scratch=0.3)


def test_compiles():
    puzzle.compiles(*paged([100, 33], H=8, Hkv=2, D=128, dtype="bfloat16"))


def test_speedup():
    B, Hkv, D, page = 32, 8, 128, 16
    lengths = [1 + n * 4095 // (B - 1) for n in range(B)]
    inputs = paged(lengths, page=page, H=32, Hkv=Hkv, D=D, dtype="bfloat16", fill=0.0)
    read = 4 * sum(lengths) * Hkv * D
    puzzle.race(*inputs, at_least=15, bytes_moved=read, kept=("block_tables", "lengths"))
