"""Tests of 04.1, softmax, in production."""

import torch

from course.challenge import challenge
from course.inputs import FLOATS, cases, dtypes, far_apart, integers, offset, randn, strided, tensor
from course.values import special_values

puzzle = challenge("softmax")
INF, NAN = float("inf"), float("nan")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_has_no_rows():
    puzzle.check_or_raises(randn(10), names="x")
    puzzle.check_or_raises(randn(2, 3, 4), names="x")


def test_shapes_x_is_of_integers():
    # Probabilities rounded to integers mean nothing, so no answer is right.
    puzzle.check_or_raises(integers(4, 5, dtype="int32"), names="x", answer=False)


def test_shapes_rows_are_too_long():
    puzzle.check_or_raises(randn(1, 2**16 + 1), names="x")


# Any size and layout.


def test_masks_longest():
    puzzle.check(randn(1, 2**16))


def test_masks_transposed():
    puzzle.check(randn(300, 41).T)


def test_masks_both_strides():
    puzzle.check(strided(randn(21, 130), 2, 3))


def test_masks_unaligned():
    puzzle.check(offset(randn(20, 256)))


@cases(rows=((1, 300), (20, 300)), columns=((20, 1), (20, 300)))
def test_masks_expanded(shape, to):
    puzzle.check(randn(*shape).expand(*to))


def test_masks_offsets_beyond_32_bits():
    x = far_apart(integers(3, dtype="float16"))
    puzzle.check_offsets(x[:, None])
    puzzle.check_offsets(x[None, :])


def test_masks_more_rows_than_axis_1_takes():
    puzzle.check_grid(integers(1, 1025, dtype="float16").expand(65537, 1025))


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(randn(1, 1025, dtype="float16").expand(2**21 + 1, 1025))


def test_masks_limits():
    puzzle.limits(lambda M, N: (randn(M, N),), dtypes=FLOATS, M=2**17, N=2**16)


# Any value.


def test_numerics_one_column_is_exactly_1():
    puzzle.check_exactly(randn(50, 1) * 10)


@cases(far_above=1e4, far_below=-1e4)
def test_numerics_mean_far_from_zero(mean):
    puzzle.check(randn(5, 700) + mean)


def test_numerics_one_huge_value():
    x = randn(3, 900)
    x[0, 3], x[1, 899], x[2, 500] = 1e30, 3e38, -3e38
    puzzle.check(x)


@dtypes("float16", "bfloat16", "float32")
def test_numerics_rows_of_the_lowest_number(dtype):
    # Where a mask is made of it, and all is masked.
    x = randn(3, 300, dtype=dtype)
    x[:] = torch.finfo(x.dtype).min
    puzzle.check(x)


def test_numerics_special_values_stay_where_they_are():
    x = randn(6, 900)
    x[0, 3], x[1, 899], x[2, 700] = INF, -INF, NAN
    x[3, 0], x[3, 1] = INF, -INF
    x[4] = -INF
    puzzle.check(x)


@cases(first_half=(0, 5000), last_half=(5000, 9000), all_but_the_last=(0, 8999))
def test_numerics_minus_infinity_in_whole_blocks(begin, end):
    x = randn(3, 9000)
    x[:, begin:end] = -INF
    puzzle.check(x)


@cases(rising=1, falling=-1)
def test_numerics_maximum_grows_from_block_to_block(slope):
    ramp = slope * torch.arange(9000, device=tensor(0).device) / 300
    puzzle.check(randn(3, 9000) + ramp)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(6, 300, dtype="float16"),), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


@cases(long_rows=(2, 20000), longest_rows=(1, 2**16))
def test_traffic(M, N):
    puzzle.traffic(randn(M, N)).check(reads=1, writes=1, launches=1, sectors=1.1)


def test_traffic_transposed():
    puzzle.traffic(randn(1000, 48).T).check(reads=1, writes=1, launches=1)


@cases(one_column=(300, 1), long_rows=(37, 5000), longest_rows=(1, 2**16))
def test_compiles(M, N):
    puzzle.compiles(randn(M, N))


def test_compiles_transposed():
    puzzle.compiles(randn(300, 41).T)


def test_speedup():
    puzzle.race(randn(16384, 4096, dtype="bfloat16"), at_least=0.9, baseline="solution")
