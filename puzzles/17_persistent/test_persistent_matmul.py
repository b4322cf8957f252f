"""Tests of 17.2, persistent matmul."""

from course.challenge import challenge
from course.inputs import cases, climbing, dtypes, integers, matrices, multiprocessors, strided

puzzle = challenge("persistent_matmul", input_precision="tf32")
INF, NAN = float("inf"), float("nan")


@cases(
    one_row=(1, 70, 40),
    one_column=(70, 1, 40),
    fewer_tiles_than_programs=(128, 32, 64),
    single_element=(1, 1, 1),
)
def test_shapes(M, N, K):
    puzzle.check(*matrices(M, N, K))


@cases(
    ragged_everywhere=(67, 35, 131),
    inner_size_overruns=(32, 32, 65),
    inner_size_one_short=(32, 32, 63),
    many_tiles_a_program=(83 * multiprocessors() - 2, 520, 20),
    last_group_has_fewer_rows=(600, 330, 20),
    one_row_of_tiles=(20, 1500, 40),
    one_column_of_tiles=(1500, 20, 40),
)
def test_masks(M, N, K):
    puzzle.check(*matrices(M, N, K, make=integers))


def test_masks_any_strides():
    puzzle.check(integers(56, 40).T, strided(integers(56, 24), 5, 2))


def test_masks_six_multiprocessors():
    # On most GPUs their number is not a power of two.
    with puzzle.given(multiprocessors=6):
        puzzle.check(*matrices(330, 520, 20))


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(*matrices(45, 50, 300, dtype))


@dtypes("float16", "bfloat16", "float32")
def test_numerics_sums_in_float32(dtype):
    ones = integers(1024, 16, low=1, high=2, dtype=dtype)
    puzzle.check_exactly(climbing(16, 1024, dtype), ones)


def test_numerics_special_values_stay_in_their_tile():
    # What one tile holds must not reach the next of the same program.
    a, b = matrices(300, 270, 70)
    a[3, 0], a[5, 69] = INF, NAN
    puzzle.check(a, b)


@cases(large=(320, 576), small=(128, 128))
def test_traffic(M, N):
    puzzle.traffic(*matrices(M, N, 64, "float16")).check(
        reads={"a": N // 32, "b": M // 32},
        writes=1,
        launches=1,
        sectors=1.1,
        grid_at_most=multiprocessors(),
    )


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*matrices(16, 1040, 64, dtype))


def test_speedup():
    inputs = matrices(4096, 4096, 4096, "bfloat16")
    puzzle.race(*inputs, at_least=0.3, operations=(2 * 4096**3, "bfloat16"))
