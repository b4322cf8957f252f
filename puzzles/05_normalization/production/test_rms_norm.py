"""Tests of 05.2, RMS norm, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, cases, dtypes, far_apart, integers, offset, randn, strided, tensor
from course.values import special_values

puzzle = challenge("rms_norm")


def layer(M, N, dtype="float32"):
    return randn(M, N, dtype=dtype), randn(N, dtype=dtype)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    x, weight = layer(4, 5)
    puzzle.check_or_raises(x[0], weight, names="x")
    puzzle.check_or_raises(x[None], weight, names="x", answer=False)


def test_shapes_x_is_of_integers():
    x, weight = integers(5, 5, dtype="int32"), integers(5, dtype="int32")
    puzzle.check_or_raises(x, weight, names="x", answer=False)


def test_shapes_rows_are_too_long():
    puzzle.check_or_raises(*layer(1, 2**15 + 1), names="x")


def test_shapes_weight_is_not_like_a_row():
    x, weight = layer(4, 5)
    puzzle.check_or_raises(x, weight[1:], names="weight")
    puzzle.check_or_raises(x, weight[None], names="weight")
    puzzle.check_or_raises(x, weight.half(), names="weight")


# Any size and layout.


@cases(ragged_everywhere=(37, 2500), longest=(2, 2**15))
def test_masks(M, N):
    puzzle.check(*layer(M, N))


def test_masks_transposed():
    x, weight = layer(41, 300)
    puzzle.check(x.T.contiguous().T, weight)


def test_masks_every_stride():
    x, weight = layer(21, 130)
    puzzle.check(strided(x, 2, 3), strided(weight, 2))


def test_masks_unaligned():
    x, weight = layer(20, 256)
    puzzle.check(offset(x), offset(weight, 3))


@cases(rows=((1, 300), (20, 300)), columns=((20, 1), (20, 300)))
def test_masks_expanded(shape, to):
    puzzle.check(randn(*shape).expand(*to), randn(1).expand(300))
    puzzle.check(randn(*shape).expand(*to), randn(300))


def test_masks_more_rows_than_axis_1_takes():
    x, weight = layer(1, 1025, "float16")
    puzzle.check_grid(x.expand(2**16, 1025), weight)


def test_masks_offsets_beyond_32_bits():
    far, near = far_apart(tensor([1, 5, 3], dtype="float16")), randn(3, dtype="float16")
    puzzle.check(far[:, None], near[:1])
    puzzle.check(far[None, :], near)
    puzzle.check(near[None, :], far)


def test_masks_result_beyond_32_bits():
    x, weight = layer(1, 1025, "float16")
    puzzle.check_large_offsets(x.expand(2**21 + 1, 1025), weight)


def test_masks_limits():
    puzzle.limits(lambda M, N: layer(M, N), dtypes=FLOATS, M=2**17, N=2**15)


# Any value, rounded once.


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(*layer(17, 3000, dtype))


@dtypes("float16", "bfloat16", "float32")
def test_numerics_mean_far_from_zero(dtype):
    x, weight = layer(8, 3000, dtype)
    puzzle.check(x + 100, weight)


def test_numerics_squares_below_half_precision():
    x, weight = layer(5, 1000, "float16")
    puzzle.check(x / 5000, weight, eps=0.0)


def test_numerics_no_eps():
    x, weight = layer(5, 700)
    puzzle.check(x * 1e-9, weight, eps=0.0)


def test_numerics_rows_of_zeros():
    x, weight = layer(3, 500)
    x[1] = 0
    puzzle.check(x, weight)


def test_numerics_special_values_stay_in_their_row():
    x, weight = layer(5, 700)
    x[0, 3], x[1, 699], x[2, 70] = float("inf"), float("-inf"), float("nan")
    x[3, 0] = 1e15
    puzzle.check(x, weight)


test_numerics_each_special_value = special_values(
    puzzle, lambda: layer(5, 70, "float16"), "x weight"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_of_the_longest_rows():
    puzzle.traffic(*layer(2, 2**15)).check(
        reads={"x": 1, "result": 0}, writes=1, launches=1, sectors={"x": 1.1, "result": 1.1}
    )


def test_traffic_transposed():
    x, weight = layer(48, 40)
    puzzle.traffic(x.T.contiguous().T, weight).check(
        reads={"x": 1, "result": 0}, writes=1, launches=1
    )


@cases(ragged_rows=(37, 2500), one_column=(200, 1), longest_rows=(2, 2**15))
def test_compiles(M, N):
    puzzle.compiles(*layer(M, N))


def test_compiles_transposed():
    x, weight = layer(41, 300)
    puzzle.compiles(x.T.contiguous().T, weight)


def test_speedup():
    puzzle.race(*layer(16384, 4096, "bfloat16"), at_least=0.9, baseline="solution")
