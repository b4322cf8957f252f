"""Tests of 07.4, batched matmul."""

from course.challenge import challenge
from course.inputs import cases, climbing, dtypes, integers, randn

puzzle = challenge("batched_matmul", input_precision="tf32")


def batches(B, M, N, K, dtype="float32", make=randn):
    return make(B, M, K, dtype=dtype), make(B, K, N, dtype=dtype)


@cases(
    one_tile_each=(3, 32, 32, 32),
    one_product=(1, 40, 70, 33),
    many_small_products=(9, 1, 1, 5),
    rows=(7, 1, 40, 20),
    columns=(7, 40, 1, 20),
    single_element=(1, 1, 1, 1),
)
def test_shapes(B, M, N, K):
    puzzle.check(*batches(B, M, N, K, make=integers))


@cases(
    ragged_everywhere=(3, 67, 35, 131),
    inner_size_overruns=(2, 32, 32, 65),
    several_tiles_each_way=(2, 257, 290, 20),
    more_rows_of_tiles=(2, 300, 20, 5),
    more_columns_of_tiles=(2, 20, 600, 5),
)
def test_masks(B, M, N, K):
    puzzle.check(*batches(B, M, N, K, make=integers))


@cases(a=(1, 5), b=(5, 1))
def test_masks_one_for_all(batch_of_a, batch_of_b):
    puzzle.check(integers(batch_of_a, 40, 35), integers(batch_of_b, 35, 20))


def test_masks_any_strides():
    puzzle.check(integers(4, 35, 40).mT, integers(35, 4, 24).transpose(0, 1))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*batches(3, 33, 40, 200, dtype))


@dtypes("float16", "bfloat16", "float32")
def test_numerics_sums_in_float32(dtype):
    ones = integers(1, 1024, 16, low=1, high=2, dtype=dtype)
    puzzle.check_exactly(climbing(16, 1024, dtype)[None], ones)


def test_traffic():
    M, N = 64, 128
    puzzle.traffic(*batches(2, M, N, 64, "float16")).check(
        reads={"a": N // 32, "b": M // 32}, writes=1, launches=1, sectors=1.1
    )


def test_traffic_one_a_for_all():
    M, N, B = 64, 128, 3
    a, b = randn(1, M, 32, dtype="float16"), randn(B, 32, N, dtype="float16")
    puzzle.traffic(a, b).check(reads={"a": B * (N // 32), "b": M // 32}, writes=1, launches=1)


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*batches(2, 64, 128, 64, dtype))


def test_speedup():
    inputs = batches(32, 2048, 2048, 2048, "float16")
    puzzle.race(*inputs, at_least=0.3, operations=(32 * 2 * 2048**3, "float16"))
