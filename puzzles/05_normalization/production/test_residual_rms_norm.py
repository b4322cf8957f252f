"""Tests of 05.3, residual RMS norm, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, cases, dtypes, far_apart, integers, offset, randn, strided, tensor
from course.values import TOGETHER, special_values

puzzle = challenge("residual_rms_norm", results=("y", "total"))


def layer(M, N, dtype="float32"):
    return randn(M, N, dtype=dtype), randn(M, N, dtype=dtype), randn(N, dtype=dtype)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    x, residual, weight = layer(4, 5)
    puzzle.check_or_raises(x[0], residual[0], weight, names="x")
    puzzle.check_or_raises(x[None], residual[None], weight, names="x", answer=False)


def test_shapes_x_is_of_integers():
    x, residual, weight = (integers(*size, dtype="int32") for size in ((5, 5), (5, 5), (5,)))
    puzzle.check_or_raises(x, residual, weight, names="x", answer=False)


def test_shapes_rows_are_too_long():
    puzzle.check_or_raises(*layer(1, 2**15 + 1), names="x")


def test_shapes_residual_is_not_like_x():
    x, residual, weight = layer(4, 5)
    puzzle.check_or_raises(x, residual[1:], weight, names="residual")
    puzzle.check_or_raises(x, residual[:1], weight, names="residual")
    puzzle.check_or_raises(x, residual.half(), weight, names="residual")


def test_shapes_weight_is_not_like_a_row():
    x, residual, weight = layer(4, 5)
    puzzle.check_or_raises(x, residual, weight[1:], names="weight")
    puzzle.check_or_raises(x, residual, weight[None], names="weight")
    puzzle.check_or_raises(x, residual, weight.half(), names="weight")


# Any size and layout.


@cases(ragged_everywhere=(37, 2500), longest=(2, 2**15))
def test_masks(M, N):
    puzzle.check(*layer(M, N))


def test_masks_transposed():
    x, residual, weight = layer(41, 300)
    puzzle.check(x.T.contiguous().T, residual, weight)
    puzzle.check(x, residual.T.contiguous().T, weight)


def test_masks_every_stride():
    x, residual, weight = layer(21, 130)
    puzzle.check(strided(x, 2, 3), strided(residual, 1, 2), strided(weight, 2))


def test_masks_unaligned():
    x, residual, weight = layer(20, 256)
    puzzle.check(offset(x), offset(residual, 2), offset(weight, 3))


def test_masks_expanded():
    x, residual, weight = randn(1, 300), randn(20, 1), randn(1)
    puzzle.check(x.expand(20, 300), residual.expand(20, 300), weight.expand(300))


def test_masks_the_same_tensor_twice():
    x, _, weight = layer(20, 300)
    puzzle.check(x, x, weight)


def test_masks_more_rows_than_axis_1_takes():
    x, residual, weight = layer(1, 1025, "float16")
    puzzle.check_grid(x.expand(2**16, 1025), residual.expand(2**16, 1025), weight)


def test_masks_offsets_beyond_32_bits():
    far = far_apart(tensor([1, 5, 3], dtype="float16"))
    near, weight = randn(3, dtype="float16"), randn(3, dtype="float16")
    puzzle.check(far[:, None], near[:, None], weight[:1])
    puzzle.check(near[:, None], far[:, None], weight[:1])
    puzzle.check(far[None, :], near[None, :], weight)
    puzzle.check(near[None, :], far[None, :], weight)
    puzzle.check(near[None, :], near[None, :], far)


def test_masks_result_beyond_32_bits():
    x, residual, weight = layer(1, 1025, "float16")
    puzzle.check_large_offsets(x.expand(2**21 + 1, 1025), residual.expand(2**21 + 1, 1025), weight)


def test_masks_limits():
    puzzle.limits(lambda M, N: layer(M, N), dtypes=FLOATS, M=2**17, N=2**15)


# Any value, with no rounding before the weight.


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(*layer(17, 3000, dtype))


@dtypes("float16", "bfloat16")
def test_numerics_normalized_in_float32(dtype):
    # A total that needs no rounding leaves one rounding, that of y.
    x, residual, weight = layer(17, 1000, dtype)
    puzzle.check(x, residual * 0, weight)


def test_numerics_no_eps():
    x, residual, weight = layer(5, 700)
    puzzle.check(x * 1e-9, residual * 1e-9, weight, eps=0.0)


def test_numerics_rows_of_zeros():
    x, residual, weight = layer(3, 500)
    residual[1] = -x[1]
    puzzle.check(x, residual, weight)


def test_numerics_special_values_stay_in_their_row():
    x, residual, weight = layer(5, 700)
    x[0, 3], residual[1, 699], x[2, 70] = float("inf"), float("-inf"), float("nan")
    puzzle.check(x, residual, weight)


# Where all are large, a total that is rounded before the norm is infinite.
test_numerics_each_special_value = special_values(
    puzzle,
    lambda: layer(5, 70, "float16"),
    "x residual weight",
    apart={TOGETHER: ("large_half",)},
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_of_the_longest_rows():
    puzzle.traffic(*layer(2, 2**15)).check(
        reads={"x": 1, "residual": 1, "result": 0},
        writes={"y": 1, "total": 1},
        launches=1,
        sectors={"x": 1.1, "residual": 1.1, "y": 1.1, "total": 1.1},
    )


def test_traffic_transposed():
    x, residual, weight = layer(48, 40)
    puzzle.traffic(x.T.contiguous().T, residual.T.contiguous().T, weight).check(
        reads={"x": 1, "residual": 1, "result": 0}, writes=1, launches=1
    )


@cases(ragged_rows=(37, 2500), one_column=(200, 1), longest_rows=(2, 2**15))
def test_compiles(M, N):
    puzzle.compiles(*layer(M, N))


def test_compiles_transposed():
    x, residual, weight = layer(41, 300)
    puzzle.compiles(x.T.contiguous().T, residual, weight)


def test_speedup():
    puzzle.race(*layer(16384, 4096, "bfloat16"), at_least=0.9, baseline="solution")
