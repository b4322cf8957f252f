"""Tests of 08.3, last tokens, in production."""

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    INDICES,
    cases,
    far_apart,
    integers,
    offset,
    randn,
    strided,
    tensor,
)
from course.values import special_values

puzzle = challenge("last_tokens", exact=True, names_causes=False)


def lengths(B, S, dtype="int64"):
    return integers(B, low=1, high=S + 1, dtype=dtype)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_has_not_three_dimensions():
    puzzle.check_or_raises(randn(3, 4), lengths(3, 4), names="x")
    puzzle.check_or_raises(randn(3, 4, 5, 6), lengths(3, 4), names="x")


def test_shapes_x_of_another_dtype():
    puzzle.check_or_raises(randn(3, 4, 5).double(), lengths(3, 4), names="x")
    puzzle.check_or_raises(integers(3, 4, 5, dtype="int32"), lengths(3, 4), names="x")


def test_shapes_lengths_do_not_fit():
    x = randn(3, 4, 5)
    puzzle.check_or_raises(x, lengths(2, 4), names="lengths", answer=False)
    puzzle.check_or_raises(x, lengths(3, 4)[None], names="lengths", answer=False)
    puzzle.check_or_raises(x, lengths(3, 4, "float32"), names="lengths", answer=False)
    puzzle.check_or_raises(x, lengths(3, 4, "int16"), names="lengths")


# Any size and layout.


@cases(no_sequences=(0, 4, 5), no_elements=(3, 4, 0))
def test_shapes(B, S, D):
    puzzle.check(randn(B, S, D), lengths(B, S))


def test_masks_lengths_with_gaps():
    puzzle.check(randn(5, 7, 40), strided(lengths(5, 7), 3))
    puzzle.check(randn(5, 7, 40), tensor([4], "int64").expand(5))


def test_masks_unaligned():
    puzzle.check(offset(randn(5, 7, 40)), offset(lengths(5, 7)))


def test_masks_expanded():
    puzzle.check(randn(1, 7, 40).expand(5, 7, 40), lengths(5, 7))
    puzzle.check(randn(5, 7, 1).expand(5, 7, 40), lengths(5, 7))


@cases(tiles_of_1024=1025, tiles_of_2048=2049, tiles_of_4096=4097)
def test_masks_second_tile_beyond_32_bits(D):
    x = far_apart(integers(D, dtype="float16"))
    puzzle.check_offsets(x[None, None, :], tensor([1], "int32"))


def test_masks_result_beyond_32_bits():
    x = randn(1, 1, 1025, dtype="float16").expand(2**21 + 1, 1, 1025)
    puzzle.check_large_offsets(x, tensor([1], "int32").expand(2**21 + 1))


@cases(sequences=(65537, 5), elements=(1, 2**27 + 1))
def test_masks_more_programs_than_axis_1_takes(B, D):
    x = integers(1, 1, 1, dtype="float16").expand(B, 1, D)
    puzzle.check_grid(x, tensor([1], "int32").expand(B))


def test_masks_limits():
    puzzle.limits(
        lambda B, S, D: (randn(B, S, D), tensor([S] * B, "int64")),
        dtypes={"x": FLOATS, "lengths": INDICES},
        B=2**17,
        S=2**17,
        D=2**17,
    )


# Any value.


def test_numerics_special_values():
    inf, nan = float("inf"), float("nan")
    x = tensor([[[1.0, 2.0, 3.0, 4.0], [0.0, -0.0, inf, nan]]])
    puzzle.check(x, tensor([2], "int64"))


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(5, 30, 20), lengths(5, 30)), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_transposed():
    puzzle.traffic(randn(40, 16, 8).permute(2, 1, 0), lengths(8, 16)).check(
        reads={"x": 1 / 16}, writes=1, launches=1
    )


def test_compiles_one_element():
    puzzle.compiles(randn(6, 1, 1), lengths(6, 1, "int32"))


def test_compiles_transposed():
    puzzle.compiles(randn(300, 7, 6).permute(2, 1, 0), lengths(6, 7))


def test_speedup():
    x = randn(8192, 16, 8192, dtype="bfloat16")
    copied = 2 * 8192 * 8192 * x.element_size()
    inputs = x, lengths(8192, 16)
    puzzle.race(*inputs, at_least=0.9, baseline="solution", bytes_moved=copied)
