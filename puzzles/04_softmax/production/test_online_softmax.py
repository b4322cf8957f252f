"""Tests of 04.3, online softmax, in production."""

import torch

from course.challenge import challenge
from course.inputs import FLOATS, cases, dtypes, far_apart, integers, offset, randn, strided
from course.values import special_values

puzzle = challenge("online_softmax")
INF, NAN = float("inf"), float("nan")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    puzzle.check_or_raises(randn(10), names="x")
    puzzle.check_or_raises(randn(2, 3, 4), names="x")


def test_shapes_x_is_of_integers():
    # Probabilities rounded to integers mean nothing, so no answer is right.
    puzzle.check_or_raises(integers(4, 5, dtype="int32"), names="x", answer=False)


# Any size and layout.


def test_masks_very_long_row():
    puzzle.check(randn(1, 2**18 + 1))


def test_masks_more_columns_than_rows():
    puzzle.check(randn(7, 130))


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


@cases(of_1024=1025, of_2048=2049, of_4096=4097, of_8192=8193)
def test_masks_steps_beyond_32_bits(N):
    # Only a stride times the length of a step overflows.
    puzzle.check(far_apart(integers(N, dtype="float16"))[None, :])


def test_masks_more_rows_than_axis_1_takes():
    puzzle.check_grid(integers(1, 1025, dtype="float16").expand(65537, 1025))


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(randn(1, 1025, dtype="float16").expand(2**21 + 1, 1025))


def test_masks_limits():
    puzzle.limits(lambda M, N: (randn(M, N),), dtypes=FLOATS, M=2**17, N=2**18)


# Any value.


def test_numerics_one_column_is_exactly_1():
    puzzle.check_exactly(randn(50, 1) * 10)


@cases(far_above=1e4, far_below=-1e4)
def test_numerics_mean_far_from_zero(mean):
    puzzle.check(randn(5, 700) + mean)


def test_numerics_one_huge_value():
    x = randn(3, 40000)
    x[0, 3], x[1, 39999], x[2, 20000] = 1e30, 3e38, -3e38
    puzzle.check(x)


@dtypes("float16", "bfloat16", "float32")
def test_numerics_rows_of_the_lowest_number(dtype):
    # Where a mask is made of it, and all is masked.
    x = randn(3, 300, dtype=dtype)
    x[:] = torch.finfo(x.dtype).min
    puzzle.check(x)


def test_numerics_special_values_stay_where_they_are():
    x = randn(6, 40000)
    x[0, 3], x[1, 39999], x[2, 7000] = INF, -INF, NAN
    x[3, 0], x[3, 1] = INF, -INF
    x[4] = -INF
    puzzle.check(x)


@cases(last_half=(20000, 40000), all_but_the_last=(0, 39999))
def test_numerics_minus_infinity_in_whole_blocks(begin, end):
    x = randn(3, 40000)
    x[:, begin:end] = -INF
    puzzle.check(x)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(6, 3000, dtype="float16"),), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


@cases(long_rows=(2, 20000), very_long_rows=(1, 2**17))
def test_traffic(M, N):
    puzzle.traffic(randn(M, N)).check(
        reads={"x": 2}, writes=1, launches=1, sectors={"x": 1.1, "result": 1.1}
    )


def test_traffic_transposed():
    puzzle.traffic(randn(1000, 48).T).check(reads={"x": 2}, writes=1, launches=1)


def test_compiles_one_column():
    puzzle.compiles(randn(300, 1))


def test_compiles_transposed():
    puzzle.compiles(randn(300, 41).T)


def test_speedup():
    puzzle.race(randn(1024, 131072), at_least=0.9, baseline="solution")
