"""Tests of 05.1, layer norm, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, cases, far_apart, integers, offset, randn, strided, tensor
from course.values import special_values

puzzle = challenge("layer_norm", results=("y", "mean", "rstd"))


def layer(M, N, dtype="float32"):
    return randn(M, N, dtype=dtype), randn(N, dtype=dtype), randn(N, dtype=dtype)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    x, weight, bias = layer(4, 5)
    puzzle.check_or_raises(x[0], weight, bias, names="x")
    puzzle.check_or_raises(x[None], weight, bias, names="x", answer=False)


def test_shapes_x_is_of_integers():
    x, weight, bias = (integers(*size, dtype="int32") for size in ((5, 5), (5,), (5,)))
    puzzle.check_or_raises(x, weight, bias, names="x", answer=False)


def test_shapes_rows_are_too_long():
    puzzle.check_or_raises(*layer(1, 2**15 + 1), names="x")


def test_shapes_weight_or_bias_is_not_like_a_row():
    x, weight, bias = layer(4, 5)
    puzzle.check_or_raises(x, weight[1:], bias, names="weight")
    puzzle.check_or_raises(x, weight.half(), bias, names="weight")
    puzzle.check_or_raises(x, weight, bias[None], names="bias")
    puzzle.check_or_raises(x, weight, bias.half(), names="bias")


# Any size and layout.


@cases(ragged_everywhere=(37, 2500), longest=(2, 2**15))
def test_masks(M, N):
    puzzle.check(*layer(M, N))


def test_masks_transposed():
    x, weight, bias = layer(41, 300)
    puzzle.check(x.T.contiguous().T, weight, bias)


def test_masks_every_stride():
    x, weight, bias = layer(21, 130)
    puzzle.check(strided(x, 2, 3), strided(weight, 2), strided(bias, 5))


def test_masks_unaligned():
    x, weight, bias = layer(20, 256)
    puzzle.check(offset(x), offset(weight, 3), offset(bias))


@cases(rows=((1, 300), (20, 300)), columns=((20, 1), (20, 300)))
def test_masks_expanded(shape, to):
    puzzle.check(randn(*shape).expand(*to), randn(300), randn(1).expand(300))


def test_masks_more_rows_than_axis_1_takes():
    x, weight, bias = layer(1, 1025, "float16")
    puzzle.check_grid(x.expand(2**16, 1025), weight, bias)


def test_masks_offsets_beyond_32_bits():
    far = far_apart(tensor([1, 5, 3], dtype="float16"))
    near, other = randn(3, dtype="float16"), randn(3, dtype="float16")
    puzzle.check(far.expand(2, 3).T, near[:2], other[:2])
    puzzle.check(far[None, :], near, other)
    puzzle.check(near[None, :], far, other)
    puzzle.check(near[None, :], other, far)


def test_masks_result_beyond_32_bits():
    x, weight, bias = layer(1, 1025, "float16")
    puzzle.check_large_offsets(x.expand(2**21 + 1, 1025), weight, bias)


def test_masks_limits():
    puzzle.limits(lambda M, N: layer(M, N), dtypes=FLOATS, M=2**17, N=2**15)


# Any value.


def test_numerics_mean_of_10000():
    x, weight, bias = layer(8, 3000)
    puzzle.check(x + 1e4, weight, bias)


def test_numerics_no_eps():
    x, weight, bias = layer(5, 700)
    puzzle.check(x * 1e-9, weight, bias, eps=0.0)


def test_numerics_constant_rows():
    _, weight, bias = layer(3, 500)
    puzzle.check(tensor([[3.0], [1e4], [0.0]]).repeat(1, 500), weight, bias)


def test_numerics_special_values_stay_in_their_row():
    x, weight, bias = layer(5, 700)
    # Both infinities: with only one, the mean is inf as a sum but NaN by Welford's method.
    x[0, 3], x[0, 699], x[2, 70] = float("inf"), float("-inf"), float("nan")
    x[3, 0] = 1e15
    puzzle.check(x, weight, bias)


# Of inf: the mean is inf as a sum, and inf - inf where it is updated, as Welford does.
test_numerics_each_special_value = special_values(
    puzzle, lambda: layer(5, 70, "float16"), "x weight bias", apart={"x": ("inf", "minus_inf")}
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_of_the_longest_rows():
    puzzle.traffic(*layer(2, 2**15)).check(
        reads={"x": 1, "result": 0}, writes=1, launches=1, sectors={"x": 1.1, "y": 1.1}
    )


def test_traffic_transposed():
    x, weight, bias = layer(48, 40)
    puzzle.traffic(x.T.contiguous().T, weight, bias).check(
        reads={"x": 1, "result": 0}, writes=1, launches=1
    )


@cases(ragged_rows=(37, 2500), one_column=(200, 1), longest_rows=(2, 2**15))
def test_compiles(M, N):
    puzzle.compiles(*layer(M, N))


def test_compiles_transposed():
    x, weight, bias = layer(41, 300)
    puzzle.compiles(x.T.contiguous().T, weight, bias)


def test_speedup():
    puzzle.race(*layer(16384, 4096, "bfloat16"), at_least=0.9, baseline="solution")
