"""Tests of 08.3, last tokens."""

from course.challenge import challenge
from course.inputs import cases, dtypes, far_apart, integers, randn, strided, tensor

puzzle = challenge("last_tokens", exact=True, names_causes=False)


def lengths(B, S, dtype="int64"):
    return integers(B, low=1, high=S + 1, dtype=dtype)


@cases(one_sequence=(1, 7, 100), one_token=(5, 1, 30), single_element=(1, 1, 1))
def test_shapes(B, S, D):
    puzzle.check(randn(B, S, D), lengths(B, S))


@cases(many_sequences=(3, 1, 1), long_sequences=(1, 3, 1), long_tokens=(1, 1, 3))
def test_masks_offsets_beyond_32_bits(B, S, D):
    # Three elements whose offsets are 0, 2**30 + 1 and 2**31 + 2.
    x = far_apart(integers(3, dtype="float16"))
    puzzle.check(x.view(-1).as_strided((B, S, D), (x.stride(0),) * 3), tensor([S] * B, "int32"))


@cases(
    ragged=(5, 7, 43),
    one_short_of_a_block=(3, 5, 1023),
    one_past_a_block=(3, 5, 1025),
    several_blocks=(3, 4, 5000),
)
def test_masks(B, S, D):
    puzzle.check(randn(B, S, D), lengths(B, S))


def test_masks_first_and_last_token():
    puzzle.check(randn(4, 9, 50), tensor([1, 9, 1, 9], "int64"))


def test_masks_any_strides():
    puzzle.check(randn(40, 7, 5).permute(2, 1, 0), lengths(5, 7))
    puzzle.check(strided(randn(5, 7, 40), 2, 3, 2), lengths(5, 7))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(6, 7, 300, dtype=dtype), lengths(6, 7, "int32"))


def test_traffic():
    puzzle.traffic(randn(8, 16, 1000), lengths(8, 16)).check(
        reads={"x": 1 / 16}, writes=1, launches=1, sectors={"x": 1.1, "result": 1.1}
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(6, 7, 300, dtype=dtype), lengths(6, 7))


def test_speedup():
    x = randn(8192, 16, 8192, dtype="bfloat16")
    copied = 2 * 8192 * 8192 * x.element_size()
    puzzle.race(x, lengths(8192, 16), at_least=2.5, bytes_moved=copied)
