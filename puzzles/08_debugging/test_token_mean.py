"""Tests of 08.7, token mean."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn

puzzle = challenge("token_mean", deterministic=True, names_causes=False)


@dtypes("bfloat16", "float32")
def test_traffic(dtype):
    puzzle.traffic(randn(2, 200, 192, dtype=dtype)).check(reads=1, writes=1, sectors=1.1)


def test_traffic_tokens_contiguous():
    x = randn(2, 64, 4096, dtype="bfloat16").transpose(1, 2)
    puzzle.traffic(x).check(reads=1, writes=1, sectors={"x": 1.1})


@cases(one_sequence=(1, 70, 64), one_token=(5, 1, 100), single_element=(1, 1, 1))
def test_shapes(B, S, D):
    puzzle.check(integers(B, S, D))


@cases(
    ragged_everywhere=(3, 67, 43),
    one_short_of_a_block=(2, 127, 63),
    one_past_a_block=(2, 129, 65),
    many_steps=(2, 1500, 70),
)
def test_masks(B, S, D):
    puzzle.check(integers(B, S, D))


def test_masks_tokens_contiguous():
    puzzle.check(integers(2, 5, 3000).transpose(1, 2))
    puzzle.check(integers(3, 70, 40).transpose(1, 2))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(2, 900, 70, dtype=dtype))


@cases(float16=("float16", 60_000), bfloat16=("bfloat16", 3))
def test_numerics_sums_in_float32(dtype, value):
    # A sum in float16 is infinite, one in bfloat16 stops at 1024.
    puzzle.check(integers(1, 2000, 20, low=value, high=value + 1, dtype=dtype))


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(2, 200, 192, dtype=dtype))


def test_speedup():
    puzzle.race(randn(64, 2048, 1024), at_least=0.5)


def test_speedup_tokens_contiguous():
    puzzle.race(randn(64, 1024, 2048).transpose(1, 2), at_least=0.5)
