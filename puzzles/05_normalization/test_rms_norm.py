"""Tests of 05.2, RMS norm."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, tensor

# Shipped kernels round the normalized row to the dtype before they multiply by the weight.
puzzle = challenge("rms_norm", rounded_on_the_way=True)


def layer(M, N, dtype="float32"):
    return randn(M, N, dtype=dtype), randn(N, dtype=dtype)


@cases(
    one_row=(1, 1000), more_rows_than_columns=(130, 7), one_column=(300, 1), single_element=(1, 1)
)
def test_shapes(M, N):
    puzzle.check(*layer(M, N))


def test_masks_whole_numbers():
    puzzle.check(tensor([2.0, -2.0]).repeat(9, 50), integers(100), eps=0.0)


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


def test_numerics_squares_beyond_half_precision():
    x, weight = layer(5, 1000, "float16")
    puzzle.check(x * 2000, weight)


@cases(inside_the_root=1e-3, far_below_it=1e-5)
def test_numerics_eps_of_small_rows(scale):
    x, weight = layer(5, 700)
    puzzle.check(x * scale, weight)


def test_numerics_eps_given():
    puzzle.check(*layer(5, 700), eps=0.5)
    puzzle.check(*layer(5, 700), 2.0)


def test_numerics_mean_is_not_subtracted():
    x, weight = layer(8, 300)
    puzzle.check(x + 100, weight)


def test_traffic():
    puzzle.traffic(*layer(48, 1000)).check(
        reads={"x": 1, "result": 0}, writes=1, launches=1, sectors={"x": 1.1, "result": 1.1}
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*layer(37, 1000, dtype))


def test_speedup():
    puzzle.race(*layer(16384, 4096, "bfloat16"), at_least=4)
