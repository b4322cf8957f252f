"""Tests of 08.7, token mean, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, along, cases, far_apart, integers, offset, randn, strided
from course.values import special_values

puzzle = challenge("token_mean", deterministic=True, names_causes=False)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_has_not_three_dimensions():
    puzzle.check_or_raises(randn(3, 4), names="x")
    puzzle.check_or_raises(randn(2, 3, 4, 5), names="x")


def test_shapes_x_of_another_dtype():
    puzzle.check_or_raises(integers(2, 3, 4, dtype="int32"), names="x")
    puzzle.check_or_raises(randn(2, 3, 4).double(), names="x")


def test_shapes_no_tokens():
    puzzle.check_or_raises(randn(2, 0, 4), names="x")


# Any size and layout.


@cases(no_sequences=(0, 4, 5), no_elements=(3, 4, 0))
def test_shapes(B, S, D):
    puzzle.check(randn(B, S, D))


@cases(sequences_last=(1, 2, 0), reversed=(2, 1, 0), rotated=(2, 0, 1))
def test_masks_permuted(a, b, c):
    puzzle.check(integers(7, 50, 30).permute(a, b, c))


def test_masks_with_gaps():
    puzzle.check(strided(integers(3, 70, 41), 2, 3, 2))


def test_masks_unaligned():
    puzzle.check(offset(integers(3, 70, 64)))


@cases(sequences=(1, 70, 41), tokens=(3, 1, 41), elements=(3, 70, 1))
def test_masks_expanded(B, S, D):
    puzzle.check(integers(B, S, D).expand(3, 70, 41))


@cases(sequences=((3, 1, 1), 0), tokens=((1, 3, 1), 1), elements=((1, 1, 3), 2))
def test_masks_offsets_beyond_32_bits(shape, dim):
    puzzle.check(along(far_apart(integers(3, dtype="float16")), dim, *shape))


@cases(steps_of_32=33, steps_of_128=129, steps_of_1024=1025)
def test_masks_steps_beyond_32_bits(S):
    # Only the stride times the length of a step overflows.
    puzzle.check_offsets(far_apart(integers(S, dtype="float16"))[None, :, None])


def test_masks_more_sequences_than_axis_1_takes():
    puzzle.check_grid(randn(1, 2, 5, dtype="float16").expand(65537, 2, 5))


def test_masks_limits():
    puzzle.limits(
        lambda B, S, D: (integers(B, S, D, low=1),), dtypes=FLOATS, B=2**17, S=2**17, D=2**17
    )


# Any value.


def test_numerics_special_values_stay_in_their_column():
    inf, nan = float("inf"), float("nan")
    x = randn(2, 300, 40)
    x[0, 3, 1], x[0, 299, 7], x[1, 7, 2] = inf, -inf, nan
    x[1, 0, 3], x[1, 200, 3] = inf, -inf
    puzzle.check(x)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(2, 300, 40, dtype="float16"),), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_one_sequence():
    puzzle.traffic(randn(1, 3000, 64, dtype="float16")).check(reads=1, writes=1, sectors=1.1)


@cases(one_token=(5, 1, 100), single_element=(1, 1, 1), ragged=(3, 67, 43))
def test_compiles(B, S, D):
    puzzle.compiles(randn(B, S, D))


def test_compiles_tokens_contiguous():
    puzzle.compiles(randn(2, 64, 4096).transpose(1, 2))


def test_speedup():
    puzzle.race(randn(64, 2048, 1024), at_least=0.9, baseline="solution")


def test_speedup_tokens_contiguous():
    x = randn(64, 1024, 2048).transpose(1, 2)
    puzzle.race(x, at_least=0.9, baseline="solution")
