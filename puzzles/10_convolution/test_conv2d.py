"""Tests of 10.3, 2-D convolution."""

import torch

from course.challenge import challenge
from course.inputs import cases, climbing, dtypes, integers, randn

puzzle = challenge("conv2d", input_precision="tf32")


def images(N, C, H, W, K, R, S, dtype="float32", make=integers):
    return make(N, C, H, W, dtype=dtype), make(K, C, R, S, dtype=dtype)


def channels_last(*tensors):
    """The same numbers, with neighbouring channels side by side in memory."""
    return [x.contiguous(memory_format=torch.channels_last) for x in tensors]


@cases(
    same_size=((2, 3, 7, 9, 5, 3, 3), 1, 1, 1),
    no_padding=((1, 2, 6, 8, 4, 3, 3), 1, 0, 1),
    pixels_alone=((2, 5, 4, 6, 3, 1, 1), 1, 0, 1),
    every_second_pixel=((1, 3, 9, 12, 4, 3, 3), 2, 1, 1),
    dilated=((1, 2, 9, 11, 4, 3, 3), 1, 2, 2),
    wide_window=((1, 2, 6, 11, 3, 2, 5), 1, 0, 1),
    single_element=((1, 1, 1, 1, 1, 1, 1), 1, 0, 1),
)
def test_shapes(sizes, stride, padding, dilation):
    puzzle.check(*images(*sizes), stride, padding, dilation)


@cases(
    all_edges=((2, 3, 5, 6, 4, 3, 3), 1, 1, 1),
    stride_and_dilation=((1, 3, 13, 10, 4, 3, 3), 3, 2, 2),
    stride_and_dilation_of_7_channels=((1, 7, 9, 8, 4, 3, 3), 2, 1, 2),
    many_pixels=((2, 1, 33, 35, 3, 3, 3), 1, 1, 1),
    many_filters=((1, 2, 4, 4, 291, 2, 2), 1, 0, 1),
    long_sums=((1, 37, 5, 5, 6, 3, 3), 1, 1, 1),
)
def test_masks(sizes, stride, padding, dilation):
    # No zeros: an element that a window sees beyond an edge shows.
    x, weight = images(*sizes)
    puzzle.check(x.abs() + 1, weight, stride, padding, dilation)


@cases(few_channels=((2, 3, 6, 7, 4, 3, 3), 2), many_channels=((1, 70, 5, 6, 20, 3, 3), 1))
def test_masks_channels_last(sizes, stride):
    puzzle.check(*channels_last(*images(*sizes)), stride, 1)


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*images(1, 20, 7, 8, 24, 3, 3, dtype, randn), 1, 1)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    x = climbing(16, 1024, dtype).T.reshape(1, 1024, 4, 4).contiguous()
    puzzle.check_exactly(x, integers(16, 1024, 1, 1, low=1, high=2, dtype=dtype))


def test_traffic():
    puzzle.traffic(*images(2, 32, 16, 16, 64, 3, 3, "float16", randn), 1, 1).check(
        reads={"x": 3 * 3 * 64 // 32, "weight": 2 * 16 * 16 // 32},
        writes=1,
        launches=1,
        sectors={"result": 1.1},
    )


@cases(contiguous=("float32", False), channels_last=("float16", True))
def test_compiles(dtype, last):
    inputs = images(2, 64, 16, 16, 64, 3, 3, dtype, randn)
    puzzle.compiles(*(channels_last(*inputs) if last else inputs), 1, 1)


def test_speedup():
    inputs = channels_last(*images(32, 256, 56, 56, 256, 3, 3, "float16", randn))
    work = (2 * 32 * 56 * 56 * 256 * 256 * 9, "float16")
    puzzle.race(*inputs, 1, 1, at_least=0.3, operations=work)
