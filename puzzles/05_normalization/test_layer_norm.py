"""Tests of 05.1, layer norm."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, tensor

puzzle = challenge("layer_norm", results=("y", "mean", "rstd"))


def layer(M, N, dtype="float32"):
    return randn(M, N, dtype=dtype), randn(N, dtype=dtype), randn(N, dtype=dtype)


@cases(
    one_row=(1, 1000), more_rows_than_columns=(130, 7), one_column=(300, 1), single_element=(1, 1)
)
def test_shapes(M, N):
    puzzle.check(*layer(M, N))


def test_masks_whole_numbers():
    puzzle.check(tensor([2.0, -2.0]).repeat(9, 50), integers(100), integers(100), eps=0.0)


@cases(
    last_block_of_rows_ragged=(67, 48),
    one_short_of_a_block=(5, 1023),
    one_past_a_block=(5, 1025),
    longest=(3, 8191),
)
def test_masks(M, N):
    puzzle.check(*layer(M, N))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*layer(17, 3000, dtype))


def test_numerics_mean_far_from_zero():
    x, weight, bias = layer(8, 3000)
    puzzle.check(x / 2 - 300, weight, bias)


@cases(bfloat16=("bfloat16", 100.25), float16=("float16", 1000.25))
def test_numerics_mean_between_two_numbers_of_the_dtype(dtype, mean):
    x, weight, bias = layer(8, 1000, dtype)
    puzzle.check(mean + x / 2, weight, bias)


def test_numerics_squares_beyond_half_precision():
    x, weight, bias = layer(5, 1000, "float16")
    puzzle.check(x * 2000, weight, bias)


@cases(inside_the_root=1e-3, far_below_it=1e-6)
def test_numerics_eps_of_small_rows(scale):
    x, weight, bias = layer(5, 700)
    puzzle.check(x * scale, weight, bias)


def test_numerics_eps_given():
    puzzle.check(*layer(5, 700), eps=0.5)
    puzzle.check(*layer(5, 700), 2.0)


def test_numerics_biased_variance():
    puzzle.check(*layer(6, 2))


def test_traffic():
    puzzle.traffic(*layer(48, 1000)).check(
        reads={"x": 1, "result": 0}, writes=1, launches=1, sectors={"x": 1.1, "y": 1.1}
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*layer(37, 1000, dtype))


def test_speedup():
    puzzle.race(*layer(16384, 4096, "bfloat16"), at_least=6)
