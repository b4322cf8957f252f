"""Tests of 10.2, max pooling, in production."""

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    along,
    cases,
    dtypes,
    far_apart,
    integers,
    offset,
    randn,
    strided,
    tensor,
)
from course.values import special_values

puzzle = challenge("max_pool2d", results=("out", "indices"), exact=True)
INF, NAN = float("inf"), float("nan")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_of_four_dimensions():
    puzzle.check_or_raises(randn(3, 8, 8), 2, names="x")
    puzzle.check_or_raises(randn(1, 2, 3, 8, 8), 2, names="x")


@dtypes("float64", "int32")
def test_shapes_x_of_another_dtype(dtype):
    # In float32 the two largest are equal, and in bfloat16 all of them.
    x = tensor([[[[2**24 - 1, 2**24], [2**24 + 1, 2**24]]]], dtype)
    puzzle.check_or_raises(x, 2, names="x")


@cases(zero=0, negative=-2, larger_than_x=9, one_side=((2, 0),), three=((2, 2, 2),), fraction=1.5)
def test_shapes_kernel_size(kernel_size):
    puzzle.check_or_raises(randn(1, 2, 8, 8), kernel_size, 1, names="kernel_size")


@cases(zero=0, negative=-1, one_side=((1, 0),), three=((1, 1, 1),), fraction=1.5)
def test_shapes_stride(stride):
    puzzle.check_or_raises(randn(1, 2, 8, 8), 2, stride, names="stride")


@cases(negative=-1, more_than_half=2, one_side=((0, 2),), three=((1, 1, 1),), fraction=0.5)
def test_shapes_padding(padding):
    puzzle.check_or_raises(randn(1, 2, 8, 8), 3, 1, padding, names="padding")


# Any size and layout.


@cases(
    wide=((1, 3), (1, 2), (0, 1)),
    tall=((4, 2), (3, 1), (2, 0)),
    stride_of_one_side=((3, 3), (1, 2), 1),
    padding_of_one_side=((2, 5), None, (1, 0)),
    whole_image=((13, 17), 1, 0),
)
def test_shapes_pairs(kernel_size, stride, padding):
    puzzle.check(randn(2, 3, 13, 17), kernel_size, stride, padding)


@cases(
    many_channels=((2, 131, 5, 6), 3, 2, 1),
    many_rows=((1, 1, 37, 5), 3, 1, 1),
    large_window=((1, 1, 12, 13), 9, 4, 4),
)
def test_masks(shape, kernel_size, stride, padding):
    puzzle.check(randn(*shape) - 9, kernel_size, stride, padding)


def test_masks_channels_last():
    puzzle.check(randn(2, 9, 70, 37).permute(0, 3, 1, 2), 3, 2, 1)


def test_masks_every_stride():
    puzzle.check(strided(randn(2, 3, 13, 17), 2, 3, 2, 3), 3, 2, 1)
    puzzle.check(randn(11, 2, 3, 9).permute(1, 2, 3, 0), 3, 1, 1)


def test_masks_unaligned():
    puzzle.check(offset(randn(2, 3, 16, 16, dtype="float16")), 2)


def test_masks_expanded():
    puzzle.check(randn(1, 1, 13, 17).expand(2, 3, 13, 17), 3, 2, 1)
    puzzle.check(randn(2, 3, 1, 17).expand(2, 3, 13, 17), 3, 2, 1)


@cases(images=0, channels=1, rows=2, columns=3)
def test_masks_offsets_beyond_32_bits(dim):
    shape = [2, 2, 3, 3]
    shape[dim] = 3
    x = along(far_apart(integers(3, dtype="float16")), dim, *shape)
    puzzle.check_offsets(x, 2, 1, 1)


@cases(rows=(2, 2), columns=(3, 2), long_rows=(2, 128), long_columns=(3, 128))
def test_masks_steps_beyond_32_bits(dim, strides):
    # Only the stride times a place in the window, or that of a tile, overflows.
    shape = [1, 1, 3, 3]
    shape[dim] = strides + 1
    x = along(far_apart(integers(strides + 1, dtype="float16")), dim, *shape)
    puzzle.check_offsets(x, 3, 1)


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(randn(1, 1, 1, 1, dtype="float16").expand(65, 4096, 128, 64), 1)


@cases(images=(65537, 1, 1, 1), channels=(1, 65537 * 128, 1, 1), rows=(1, 1, 65537 * 128, 1))
def test_masks_more_programs_than_axis_1_takes(N, C, H, W):
    puzzle.check_grid(randn(1, 1, 1, 1, dtype="float16").expand(N, C, H, W), 1)


def test_masks_limits():
    def build(N, C, P, Q, window):
        # The last element of each window is the largest.
        x = randn(1, 1, P + window - 1, 1) + 9 * tensor(range(Q + window - 1))
        return x.expand(N, C, *x.shape[2:]).contiguous(), window, 1

    puzzle.limits(build, dtypes=FLOATS, N=2**17, C=2**17, P=2**14, Q=2**14, window=2**6)


# Any value.


@dtypes("float32", "float16", "bfloat16")
def test_numerics_nan(dtype):
    x = randn(2, 2, 12, 15, dtype=dtype)
    x[0, 0, 3, 4], x[0, 0, 4, 4], x[0, 0, 4, 5], x[0, 1, 0, 0], x[1, 0, 11, 14] = (
        NAN,
        NAN,
        9,
        NAN,
        NAN,
    )
    x[1, 1, 5, 5], x[1, 1, 5, 6] = INF, NAN
    puzzle.check(x, 3, 2, 1)
    puzzle.check(x, 2)


def test_numerics_infinity():
    x = randn(1, 2, 12, 15)
    x[0, 0, :7], x[0, 1, 3, 4] = -INF, INF
    puzzle.check(x, 3, 2, 1)
    puzzle.check(x * 0 - INF, 3, 2, 1)
    puzzle.check(x * 0 - INF, 5, 1, 2)


def test_numerics_lowest_numbers():
    puzzle.check(tensor([[[[-3e38, -2e38], [-INF, -3.4e38]]]]), 2, 1, 1)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(2, 2, 12, 15, dtype="float16"), 3, 2, 1), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_pairs():
    puzzle.traffic(randn(1, 2, 32, 128, dtype="bfloat16"), (1, 4)).check(
        reads={"x": 1}, writes=1, launches=1, scratch=0
    )


def test_traffic_channels_last():
    x = randn(2, 16, 64, 4, dtype="float16").permute(0, 3, 1, 2)
    puzzle.traffic(x, 2).check(reads={"x": 1}, writes=1, launches=1, scratch=0)


def test_compiles_channels_last():
    puzzle.compiles(randn(2, 16, 64, 64, dtype="float16").permute(0, 3, 1, 2), 3, 2, 1)


@cases(window_of_7=(7, 2, 3), pairs=((1, 3), (2, 1), (0, 1)), window_of_50=(50, 1, 0))
def test_compiles_windows(kernel_size, stride, padding):
    puzzle.compiles(randn(1, 2, 60, 60, dtype="bfloat16"), kernel_size, stride, padding)


def test_compiles_sizes_of_1():
    puzzle.compiles(randn(1, 1, 1, 1), 1)


def test_speedup():
    x = randn(64, 64, 224, 224, dtype="bfloat16")
    puzzle.race(x, 3, 2, 1, at_least=0.9, baseline="solution")
