"""What 01.1, copy, is held to."""

from judge.challenge import challenge
from judge.inputs import cases, dtypes, integers, offset, randn, reserve, strided, tensor

puzzle = challenge("vector_copy", exact=True)

sizes = cases(
    empty=0,
    single_element=1,
    one_short_of_a_block=1023,
    whole_blocks=2048,
    one_past_a_block=1025,
    ragged=5000,
)


@sizes
def test_shapes(N):
    puzzle.check(randn(N))


def test_shapes_of_bad_input():
    puzzle.rejects(ValueError, randn(4, 4), naming="x")
    puzzle.rejects(ValueError, strided(randn(10), 2), naming="x")


@cases(single_element=1, last_block_of_one=129, last_block_of_all_but_one=1279)
def test_masks(N):
    puzzle.check(integers(N))


def test_masks_unaligned_view():
    puzzle.check(offset(randn(1000), 3))


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(reserve(2**31 + 77, "float16"))


@dtypes(
    *("bool", "uint8", "uint16", "int8", "int16", "int32", "int64"),
    *("float8_e4m3fn", "float16", "bfloat16", "float32", "float64"),
)
def test_numerics(dtype):
    puzzle.check(integers(777, low=0, high=100, dtype=dtype))


def test_numerics_special_values():
    puzzle.check(tensor([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-45]))


@cases(int64=([2**53 + 1, -(2**62) - 1], "int64"), float64=([1 + 2**-40, 1e300, 5e-324], "float64"))
def test_numerics_numbers_that_float32_cannot_hold(values, dtype):
    puzzle.check(tensor(values, dtype))


def test_traffic():
    puzzle.traffic(randn(5000)).check(reads={"x": 1}, writes=1, launches=1, sectors=1.1)


def test_compiles():
    puzzle.compiles(randn(5000))


def test_speedup():
    puzzle.race(randn(2**26), at_least=0.9)
