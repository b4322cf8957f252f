"""Tests of 01.5, fused multiply-add."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, tensor

puzzle = challenge("fused_multiply_add")


@cases(one_block=1024, several_blocks=8192, single_element=1)
def test_shapes(N):
    puzzle.check(integers(N), integers(N), integers(N))


@cases(last_block_of_one=1025, one_short_of_a_block=1023, ragged=20001)
def test_masks(N):
    puzzle.check(integers(N), integers(N), integers(N))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(3000, dtype=dtype), randn(3000, dtype=dtype), randn(3000, dtype=dtype))


def test_numerics_one_rounding():
    tiny = 2.0**-12
    x = tensor([1 + tiny, 1 + tiny, 1 - tiny, 3.0])
    y = tensor([1 + tiny, 1 - tiny, 1 - tiny, 1 / 3])
    z = tensor([-(1 + 2 * tiny), -1.0, -(1 - 2 * tiny), -1.0])
    puzzle.check_exactly(x, y, z)


@dtypes("float16", "bfloat16")
def test_numerics_product_in_float32(dtype):
    # The last product is beyond float16's range, the result is not.
    tiny = 2.0**-5
    x = tensor([1 + tiny, 1 + tiny, 3.0, 300.0], dtype)
    y = tensor([1 + tiny, 1 - tiny, 1 / 3, 300.0], dtype)
    z = tensor([-(1 + 2 * tiny), -1.0, -1.0, -6e4], dtype)
    puzzle.check_exactly(x, y, z)


def test_traffic():
    puzzle.traffic(randn(5000), randn(5000), randn(5000)).check(
        reads={"x": 1, "y": 1, "z": 1}, writes=1, launches=1, sectors=1.1
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    x = randn(5000, dtype=dtype)
    puzzle.compiles(x, x, x)


def test_speedup():
    puzzle.race(randn(2**26), randn(2**26), randn(2**26), at_least=0.5)
