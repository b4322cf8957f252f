"""Tests of 06.2, bias and GELU."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, tensor, uniform

puzzle = challenge("bias_gelu")


@cases(
    wide=(3, 2100),
    tall=(300, 17),
    one_row=(1, 1000),
    one_column=(30, 1),
    single_element=(1, 1),
)
def test_shapes(M, N):
    puzzle.check(integers(M, N), integers(N))


@cases(
    one_past_a_power_of_two=(17, 129),
    one_short_of_a_power_of_two=(15, 63),
    ragged=(35, 131),
)
def test_masks(M, N):
    puzzle.check(integers(M, N), integers(N))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(20, 150, dtype=dtype), randn(150, dtype=dtype))


@dtypes("float32", "float16", "bfloat16")
def test_numerics_erf_and_not_tanh(dtype):
    # The approximation by tanh is off by up to 5e-4.
    puzzle.check(uniform(20, 150, low=-6, high=6, dtype=dtype), integers(150, dtype=dtype))


def test_numerics_sum_in_float32():
    # In float16 the sum is -inf and its gelu NaN.
    puzzle.check(tensor([[-60000.0, 1.0]], "float16"), tensor([-60000.0, 1.0], "float16"))


def test_numerics_sum_between_two_numbers_of_bfloat16():
    x, bias = tensor([[-2.0, -2.25, -2.75, -3.0]]), tensor([-1.0, 3.0, 3.0, 1.0]) / 128
    puzzle.check_exactly(x.bfloat16(), bias.bfloat16())


def test_traffic():
    puzzle.traffic(randn(64, 256), randn(256)).check(
        reads={"x": 1}, writes=1, launches=1, sectors={"x": 1.1, "result": 1.1}
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(40, 256, dtype=dtype), randn(256, dtype=dtype))


def test_speedup():
    puzzle.race(randn(8192, 8192, dtype="bfloat16"), randn(8192, dtype="bfloat16"), at_least=1.2)
