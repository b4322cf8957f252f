"""Tests of 10.4, the weight gradient of a convolution, in production."""

import math

import torch

from course.challenge import challenge
from course.inputs import FLOATS, along, cases, dtypes, far_apart, integers, offset, randn, strided
from course.values import special_values

puzzle = challenge("conv2d_dweight", input_precision="tf32", deterministic=True)
INF, NAN = float("inf"), float("nan")


def images(N, C, H, W, K, P, Q, dtype="float32", make=integers):
    return make(N, K, P, Q, dtype=dtype), make(N, C, H, W, dtype=dtype)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_of_four_dimensions():
    dy, x = images(2, 3, 6, 7, 4, 4, 5)
    puzzle.check_or_raises(dy, x[0], 3, names="x")
    puzzle.check_or_raises(dy, x[None], 3, names="x")


@dtypes("float64", "int32")
def test_shapes_x_of_another_dtype(dtype):
    puzzle.check_or_raises(*images(2, 3, 6, 7, 4, 4, 5, dtype, randn), 3, names="x")


def test_shapes_dy_does_not_fit_x():
    dy, x = images(2, 3, 6, 7, 4, 4, 5)
    for wrong in (dy[0], dy[None], dy[:1], dy[:, :, :3], dy[..., :4], dy.mT, dy.half()):
        puzzle.check_or_raises(wrong, x, 3, names="dy", answer=False)
    puzzle.check_or_raises(dy, x, 3, 2, names="dy", answer=False)
    puzzle.check_or_raises(dy, x, 3, 1, 1, names="dy", answer=False)


@cases(zero=(0,), negative=(-1,), too_large=(7,), one_side=((3, 0),), three=((3, 3, 3),))
def test_shapes_kernel_size(kernel_size):
    dy, x = images(2, 3, 6, 6, 4, 4, 4)
    puzzle.check_or_raises(dy, x, kernel_size, names="kernel_size", answer=False)


@cases(zero=(0,), negative=(-1,), one_side=((1, 0),), three=((1, 1, 1),), fraction=(1.5,))
def test_shapes_stride_and_dilation(value):
    dy, x = images(2, 3, 6, 6, 4, 4, 4)
    puzzle.check_or_raises(dy, x, 3, stride=value, names="stride", answer=False)
    puzzle.check_or_raises(dy, x, 3, dilation=value, names="dilation", answer=False)


@cases(negative=(-1,), one_side=((0, -1),), three=((0, 0, 0),), fraction=(0.5,))
def test_shapes_padding(padding):
    dy, x = images(2, 3, 6, 6, 4, 4, 4)
    puzzle.check_or_raises(dy, x, 3, padding=padding, names="padding", answer=False)


# Any size and layout.


@cases(
    window_of_two_sizes=((4, 4, 5), (3, 2), 1, 0, 1),
    stride_of_one_side=((4, 4, 2), 3, (1, 2), 0, 1),
    padding_of_one_side=((4, 8, 4), 3, 1, (2, 0), 1),
    dilation_of_one_side=((4, 4, 2), 3, 1, 0, (1, 2)),
    all_differ=((4, 2, 3), (3, 2), (2, 1), (1, 0), (2, 3)),
)
def test_shapes_pairs(sizes, kernel_size, stride, padding, dilation):
    K, P, Q = sizes
    dy, x = images(2, 3, 6, 6, K, P, Q)
    puzzle.check(dy, x.abs() + 1, kernel_size, stride, padding, dilation)


@cases(
    long_rows=(1, 3, 5, 200),
    rows_of_33=(1, 2, 33, 33),
    single_pixels=(300, 1, 1, 1),
    rows_of_8=(9, 5, 8, 8),
)
def test_masks(N, C, H, W):
    dy, x = images(N, C, H, W, 5, H, W)
    puzzle.check(dy, x.abs() + 1, 3 if H > 1 else 1, 1, 1 if H > 1 else 0)


@cases(tiles_of_filters=(150, 3), tiles_of_channels=(3, 300))
def test_masks_tiles(K, C):
    dy, x = images(2, C, 4, 4, K, 4, 4)
    puzzle.check(dy, x, 3, 1, 1)


def test_masks_every_stride():
    dy, x = images(2, 3, 7, 6, 4, 4, 3)
    puzzle.check(strided(dy, 2, 1, 3, 2), strided(x, 3, 2, 2, 1), 3, 2, 1)
    puzzle.check(*(it.permute(0, 1, 3, 2) for it in (dy, x)), 3, 2, 1)


@cases(
    contiguous=(1, 64, 32, 34, 80, 3),
    ragged=(3, 45, 19, 23, 131, 3),
    few_channels=(2, 31, 28, 29, 180, 3),
    few_filters=(2, 180, 28, 29, 31, 3),
)
def test_masks_large(N, C, H, W, K, size):
    dy, x = images(N, C, H, W, K, H, W)
    puzzle.check(dy, x.abs() + 1, size, 1, 1)


@cases(even=(32, 32), odd=(31, 61))
def test_masks_large_half(H, W):
    dy, x = images(1, 64, H, W, 136, H, W, "float16")
    puzzle.check(dy, x.abs() + 1, 3, 1, 1)


def test_masks_large_and_strided():
    dy, x = images(2, 70, 21, 32, 96, 21, 32)
    last = x.contiguous(memory_format=torch.channels_last)
    puzzle.check(strided(dy, 1, 1, 2, 1), last, 3, 1, 1)


def test_masks_unaligned():
    dy, x = images(1, 32, 8, 8, 16, 8, 8, "float16")
    puzzle.check(offset(dy), offset(x, 3), 3, 1, 1)


def test_masks_gradient_of_a_sum():
    dy, x = images(2, 3, 7, 6, 4, 7, 6)
    puzzle.check(dy[:1, :1, :1, :1].expand(2, 4, 7, 6), x, 3, 1, 1)
    puzzle.check(dy, x[:1, :1].expand(2, 3, 7, 6), 3, 1, 1)


@cases(images=0, planes=1, rows=2, columns=3)
def test_masks_offsets_beyond_32_bits(dim):
    shape = [1, 2, 3, 3]
    shape[dim] = 3
    far = along(far_apart(integers(3, dtype="float16")), dim, *shape)
    near = integers(*shape, dtype="float16")
    puzzle.check_offsets(far, near, 1)
    puzzle.check_offsets(near, far, 1)
    puzzle.check_offsets(far, near, 3, 1, 1)
    puzzle.check_offsets(near, far, 3, 1, 1)


def test_masks_result_beyond_32_bits():
    x = randn(1, 1, 1, 1, dtype="float16")
    puzzle.check_large_offsets(x.expand(1, 2**16, 1, 1), x.expand(1, 2**15 + 1, 1, 1), 1)


def test_masks_more_programs_than_axis_1_takes():
    x = randn(1, 1, 257, 257, dtype="float16")
    puzzle.check_grid(x[..., :1, :1], x, 257)


def test_masks_limits():
    def build(N, C, P, Q, K, R):
        dy, x = images(N, C, P + R - 1, Q + R - 1, K, P, Q)
        dy[-1, :, -1, -1] = 2**11
        return dy.abs() + 1, x.abs() + 1, R

    puzzle.limits(build, dtypes=FLOATS, N=2**17, C=2**14, P=2**14, Q=2**14, K=2**14, R=2**6)


# Any value.


def test_numerics_special_values():
    dy, x = images(2, 5, 8, 9, 4, 8, 9, make=randn)
    x[0, 1, 0, 4], x[1, 2, 7, 8], dy[0, 2, 3, 3], dy[1, 3, 4, 4] = NAN, INF, -INF, NAN
    puzzle.check(dy, x, 3, 1, 1)


@dtypes("bfloat16", "float32")
def test_numerics_beyond_the_range_of_float16(dtype):
    dy, x = images(1, 5, 8, 9, 4, 8, 9, dtype, randn)
    puzzle.check(dy, x * 1e6, 3, 1, 1)


def test_numerics_many_parts():
    dy, x = images(2, 3, 48, 49, 3, 48, 49, "bfloat16", randn)
    puzzle.check(dy * 1000, x, 1)


# Without padding: whether 0 times NaN counts there differs between PyTorch's libraries.
test_numerics_each_special_value = special_values(
    puzzle, lambda: (*images(2, 5, 8, 9, 4, 6, 7, "float16", randn), 3), "dy x"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_many_programs():
    inputs = images(4, 16, 32, 32, 16, 32, 32, "float16", randn)
    puzzle.traffic(*inputs, 1).check(
        reads={"dy": 1, "x": 1}, writes=1, launches=2, programs_at_least=8
    )
    puzzle.traffic(*inputs, 3, 1, 1).check(launches=2, programs_at_least=32)


def test_traffic_large():
    # A copy of each with channels last may come first.
    puzzle.traffic(*images(2, 64, 32, 32, 64, 32, 32, "float16", randn), 3, 1, 1).check(
        reads={"dy": 2 * 9, "x": 2 * 9}, writes=1, launches=4, scratch=math.inf
    )


def test_compiles_channels_first():
    puzzle.compiles(*images(1, 256, 56, 56, 256, 56, 56, "bfloat16", randn), 3, 1, 1)


@cases(float16=("float16", 56), float32=("float32", 56), odd=("float16", 57))
def test_compiles_large(dtype, size):
    inputs = images(1, 256, 56, size, 256, 56, size, dtype, randn)
    last = (it.contiguous(memory_format=torch.channels_last) for it in inputs)
    puzzle.compiles(*last, 3, 1, 1)


@cases(rows_of_28=28, rows_of_7=7)
def test_compiles_rows(W):
    puzzle.compiles(*images(2, 32, 8, W, 32, 8, W, "bfloat16", randn), 3, 1, 1)


def test_compiles_sizes_of_1():
    puzzle.compiles(*images(1, 1, 1, 1, 1, 1, 1, "float16", randn), 1)


def test_speedup():
    inputs = images(32, 256, 56, 56, 256, 56, 56, "float16", randn)
    last = (it.contiguous(memory_format=torch.channels_last) for it in inputs)
    work = (2 * 32 * 56 * 56 * 256 * 256 * 9, "float16")
    puzzle.race(*last, 3, 1, 1, at_least=0.9, operations=work, baseline="solution")
