"""Tests of 07.2, tiled matmul."""

from course.challenge import challenge
from course.inputs import cases, climbing, dtypes, integers, matrices, strided

puzzle = challenge("tiled_matmul", input_precision="tf32")


@cases(one_tile=(32, 32, 32), one_row=(1, 70, 40), one_column=(70, 1, 40), single_element=(1, 1, 1))
def test_shapes(M, N, K):
    puzzle.check(*matrices(M, N, K, make=integers))


@cases(
    rows_overrun=(129, 32, 32),
    columns_overrun=(32, 257, 32),
    inner_size_overruns=(32, 32, 65),
    inner_size_one_short=(32, 32, 63),
    everything_overruns=(67, 35, 131),
    several_tiles_each_way=(257, 290, 48),
)
def test_masks(M, N, K):
    puzzle.check(*matrices(M, N, K, make=integers))


def test_masks_any_strides():
    puzzle.check(integers(56, 40).T, strided(integers(56, 24), 5, 2))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*matrices(45, 50, 300, dtype))


@dtypes("float16", "bfloat16", "float32")
def test_numerics_sums_in_float32(dtype):
    ones = integers(1024, 16, low=1, high=2, dtype=dtype)
    puzzle.check_exactly(climbing(16, 1024, dtype), ones)


@dtypes("bfloat16", "float32")
def test_numerics_beyond_the_range_of_float16(dtype):
    a, b = matrices(20, 24, 70, dtype)
    puzzle.check(a * 1e6, b)


def test_traffic():
    M, N, K = 128, 256, 64
    puzzle.traffic(*matrices(M, N, K, "float16")).check(
        reads={"a": N // 32, "b": M // 32}, writes=1, launches=1, sectors=1.1
    )


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*matrices(64, 128, 64, dtype))


def test_speedup():
    inputs = matrices(4096, 4096, 4096, "float16")
    puzzle.race(*inputs, at_least=0.25, operations=(2 * 4096**3, "float16"))
