"""Tests of 10.2, max pooling."""

import math

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, uniform

puzzle = challenge("max_pool2d", results=("out", "indices"), exact=True)


@cases(
    halves=((2, 3, 8, 12), 2, 2, 0),
    overlapping=((1, 2, 9, 11), 3, 2, 1),
    large_window=((1, 2, 14, 13), 7, 2, 3),
    window_of_1=((2, 2, 5, 4), 1, 1, 0),
    one_window=((2, 3, 3, 3), 3, 1, 0),
    single_element=((1, 1, 1, 1), 1, 1, 0),
)
def test_shapes(shape, kernel_size, stride, padding):
    puzzle.check(randn(*shape), kernel_size, stride, padding)


@cases(window_of_2=2, window_of_3=3, window_of_7=7)
def test_shapes_stride_is_kernel_size(kernel_size):
    # With 3 and 7 the last rows and columns are in no window.
    puzzle.check(randn(2, 2, 17, 29), kernel_size)


@cases(
    edges_of_odd_images=((2, 3, 13, 17), 3, 2, 1),
    several_blocks=((1, 1, 5, 2051), 3, 1, 1),
    many_planes=((3, 7, 6, 5), 3, 2, 1),
    rows_in_no_window=((2, 3, 14, 19), 2, 2, 0),
    steps_over_elements=((1, 2, 8, 31), 2, 3, 1),
)
def test_masks_padding_never_wins(shape, kernel_size, stride, padding):
    # All are negative: padding that counts as 0 would be the largest.
    puzzle.check(uniform(*shape, low=-9, high=-1), kernel_size, stride, padding)


@cases(halves=(2, 2, 0), overlapping=(3, 2, 1), large_window=(7, 2, 3))
def test_masks_channels_last(kernel_size, stride, padding):
    x = randn(2, 9, 11, 2).permute(0, 3, 1, 2)
    puzzle.check(x, kernel_size, stride, padding)


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(1, 3, 16, 33, dtype=dtype), 3, 2, 1)


@cases(two_values=(0, 2), one_value=(-3, -2))
def test_numerics_ties_go_to_the_first(low, high):
    puzzle.check(integers(1, 2, 15, 18, low=low, high=high), 3, 2, 1)


def test_traffic_overlapping():
    puzzle.traffic(randn(1, 2, 32, 128, dtype="float16"), 3, 2, 1).check(
        reads={"x": math.ceil(3 / 2) ** 2},
        writes=1,
        launches=1,
        sectors={"x": 2.3, "result": 1.1},
    )


def test_traffic_side_by_side():
    puzzle.traffic(randn(1, 2, 32, 128, dtype="float16"), 2).check(
        reads={"x": 1}, writes=1, launches=1
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(2, 4, 40, 40, dtype=dtype), 3, 2, 1)


def test_speedup():
    puzzle.race(randn(64, 64, 224, 224, dtype="bfloat16"), 3, 2, 1, at_least=0.6)
