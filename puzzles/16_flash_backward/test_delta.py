"""Tests of 16.1, delta."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn

puzzle = challenge("attention_delta")


def two(B, H, S, D, dtype="float16"):
    """out and dout."""
    return randn(B, H, S, D, dtype=dtype), randn(B, H, S, D, dtype=dtype)


@cases(
    batches_and_heads=(3, 2, 20, 16),
    whole_tiles=(1, 2, 256, 64),
    widest=(1, 2, 70, 128),
    one_query_a_head=(2, 3, 1, 32),
    single_query=(1, 1, 1, 16),
)
def test_shapes(B, H, S, D):
    puzzle.check(*two(B, H, S, D))


@cases(one_short=63, one_past=65, past_many=1025)
def test_masks(S):
    puzzle.check(*two(1, 2, S, 16))


def test_numerics_whole_numbers():
    out, dout = (integers(1, 2, 64, 64, low=-99, high=100, dtype="float16") for _ in range(2))
    puzzle.check_exactly(out, dout)


@dtypes("float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*two(1, 2, 100, 128, dtype))


@dtypes("float16", "bfloat16")
def test_numerics_products_in_float32(dtype):
    # Products of 16-bit numbers have more digits than 16-bit numbers.
    out, dout = two(1, 1, 64, 128, dtype)
    puzzle.check(out / 8 + 1, dout / 8 + 1)


def test_numerics_products_beyond_the_range_of_float16():
    out, dout = two(1, 1, 64, 128)
    puzzle.check(out * 1000, dout * 1000)


def test_traffic():
    puzzle.traffic(*two(2, 2, 256, 64)).check(reads=1, writes=1, launches=1, sectors=1.1)


@dtypes("float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*two(1, 2, 130, 128, dtype))


def test_speedup():
    puzzle.race(*two(4, 32, 4096, 128), at_least=3)
