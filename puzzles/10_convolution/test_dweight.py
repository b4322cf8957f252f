"""Tests of 10.4, the weight gradient of a convolution."""

import torch

from course.challenge import challenge
from course.inputs import cases, climbing, dtypes, integers, randn

puzzle = challenge("conv2d_dweight", input_precision="tf32", deterministic=True)


def images(N, C, H, W, K, window, dtype="float32", make=integers, **options):
    """dy of the size that conv2d returns, x, the size of the window, and the other options."""
    given = {"stride": 1, "padding": 0, "dilation": 1} | options
    P, Q = (
        (size + 2 * given["padding"] - given["dilation"] * (window - 1) - 1) // given["stride"] + 1
        for size in (H, W)
    )
    return make(N, K, P, Q, dtype=dtype), make(N, C, H, W, dtype=dtype), window, *given.values()


@cases(
    same_size=((2, 3, 7, 9, 5, 3), {"padding": 1}),
    no_padding=((1, 2, 6, 8, 4, 3), {}),
    pixels_alone=((2, 5, 4, 6, 3, 1), {}),
    every_second_pixel=((1, 3, 9, 12, 4, 3), {"stride": 2, "padding": 1}),
    dilated=((1, 2, 9, 11, 4, 3), {"padding": 2, "dilation": 2}),
    single_element=((1, 1, 1, 1, 1, 1), {}),
)
def test_shapes(sizes, options):
    puzzle.check(*images(*sizes, **options))


@cases(
    all_edges=((2, 3, 5, 6, 4, 3), {"padding": 1}),
    stride_and_dilation=((1, 3, 13, 10, 4, 3), {"stride": 3, "padding": 2, "dilation": 2}),
    many_pixels=((2, 2, 43, 67, 3, 1), {}),
    many_filters=((1, 2, 4, 4, 291, 2), {}),
    many_channels=((1, 291, 4, 4, 3, 2), {}),
)
def test_masks(sizes, options):
    # No zeros: an element that a window sees beyond an edge shows.
    dy, x, *rest = images(*sizes, **options)
    puzzle.check(dy, x.abs() + 1, *rest)


def test_masks_channels_last():
    dy, x = integers(2, 5, 7, 5), integers(2, 7, 9, 3)
    puzzle.check(dy.permute(0, 3, 1, 2), x.permute(0, 3, 1, 2), 3)


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*images(2, 20, 7, 8, 24, 3, dtype, randn, padding=1))


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    # Every partial sum is a large number, which must not be rounded before they are added.
    dy = climbing(16, 4096, dtype).view(1, 16, 64, 64)
    puzzle.check_exactly(dy, integers(1, 16, 64, 64, low=1, high=2, dtype=dtype), 1)


def test_numerics_same_bits_on_every_run():
    # Atomics add many parts in another order each time.
    dy, x, *rest = images(4, 3, 33, 31, 3, 1, make=randn)
    puzzle.check(dy * 1000, x, *rest)


def test_traffic():
    puzzle.traffic(*images(2, 16, 32, 32, 16, 3, "float16", randn, padding=1)).check(
        reads={"dy": 9, "x": 9}, writes=1, launches=2
    )


@cases(contiguous="float32", half="bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*images(2, 64, 16, 16, 64, 3, dtype, randn, padding=1))


def test_speedup():
    dy, x, *rest = images(32, 256, 56, 56, 256, 3, "float16", randn, padding=1)
    last = (it.contiguous(memory_format=torch.channels_last) for it in (dy, x))
    work = (2 * 32 * 56 * 56 * 256 * 256 * 9, "float16")
    puzzle.race(*last, *rest, at_least=0.15, operations=work)
