"""Tests of 09.4, grouped matmul."""

from course.challenge import challenge
from course.inputs import (
    cases,
    climbing,
    dtypes,
    groups,
    integers,
    multiprocessors,
    randn,
    strided,
    tensor,
)

puzzle = challenge("grouped_matmul", input_precision="tf32")


@cases(
    one_group=([40], 50, 70),
    a_group_of_one_row=([30, 1, 20], 40, 40),
    single_element=([1], 1, 1),
)
def test_shapes(sizes, N, K):
    puzzle.check(*groups(sizes, N, K))


@cases(
    ragged_everywhere=([67, 130, 35], 45, 83),
    empty_groups=([0, 40, 0, 0, 70, 0], 40, 30),
    many_small_groups=([7] * 40, 20, 30),
    many_tiles_a_group=([300, 10, 260], 300, 20),
)
def test_masks(sizes, N, K):
    puzzle.check(*groups(sizes, N, K))


def test_masks_seven_multiprocessors():
    with puzzle.given(multiprocessors=7):
        puzzle.check(*groups([100, 0, 230, 64], 150, 30))


def test_masks_any_strides_ends_of_64_bits():
    a, b, ends = groups([30, 50], 40, 60, index="int64")
    puzzle.check(integers(60, 80).T, strided(b, 1, 2, 3), ends)
    puzzle.check(a, integers(2, 40, 60).mT, strided(ends, 2))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*groups([33, 70], 40, 300, dtype, make=randn))


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    ones = integers(2, 1024, 16, low=1, high=2, dtype=dtype)
    puzzle.check_exactly(climbing(20, 1024, dtype), ones, tensor([12, 20], "int32"))


def test_traffic():
    sizes, N = [256, 64, 0, 384, 192], 128
    traffic = puzzle.traffic(*groups(sizes, N, 64, "float16"))
    tiles = sum(rows // 32 for rows in sizes)
    reads = {"a": N // 32, "b": tiles / len(sizes)}
    traffic.check(reads=reads, writes=1, launches=1, sectors=1.1)
    traffic.check(grid_at_most=multiprocessors(), largest_share=1.3)


def test_traffic_groups_of_one_tile():
    puzzle.traffic(*groups([32] * 40, 32, 32, "float16")).check(largest_share=1.3)


def test_traffic_ends_stay_on_the_gpu():
    puzzle.check(*groups([20, 0, 30], 20, 20), scalars=0)


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*groups([200, 56], 128, 64, dtype))


def test_speedup():
    sizes = [16 * (1 + group % 31) for group in range(63)]
    inputs = groups([*sizes, 16384 - sum(sizes)], 2048, 2048, "bfloat16", make=randn)
    puzzle.race(*inputs, kept=["ends"], at_least=2.5, operations=(2 * 16384 * 2048**2, "bfloat16"))
