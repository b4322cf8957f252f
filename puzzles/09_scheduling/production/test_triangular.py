"""Tests of 09.3, Gram matrix, in production."""

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    cases,
    dtypes,
    far_apart,
    integers,
    large_at_the_end,
    offset,
    randn,
    strided,
)
from course.values import special_values

puzzle = challenge("gram_matrix", input_precision="tf32")
INF, NAN = float("inf"), float("nan")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_a_is_not_a_matrix():
    puzzle.check_or_raises(randn(8), names="a", answer=False)
    puzzle.check_or_raises(randn(2, 8, 5), names="a", answer=False)


def test_shapes_a_of_another_dtype():
    puzzle.check_or_raises(randn(8, 5).double(), names="a")
    puzzle.check_or_raises(integers(8, 5, dtype="int32"), names="a")


# Any size and layout.


@cases(no_rows=(0, 6), nothing_to_sum=(8, 0))
def test_shapes_empty(M, K):
    puzzle.check(randn(M, K))


@cases(even_number_of_tiles=1030, odd_number_of_tiles=1200)
def test_masks_large_tiles(M):
    puzzle.check(integers(M, 20))


def test_masks_outer_product():
    puzzle.check(randn(140, 1))


def test_masks_both_strides_differ():
    puzzle.check(strided(integers(137, 50), 2, 3))


def test_masks_unaligned():
    puzzle.check(offset(integers(140, 56)))


def test_masks_one_row_repeated():
    puzzle.check(integers(1, 40).expand(150, 40))


def test_masks_one_column_repeated():
    puzzle.check(integers(140, 1).expand(140, 50))


# Where a kernel may load in another way, or copy its factor first.
@cases(rows_are_aligned=(520, 264), rows_are_not=(517, 259))
def test_masks_large(M, K):
    puzzle.check(integers(M, K, dtype="float16"))


def test_masks_offsets_beyond_32_bits():
    far = far_apart(integers(3, dtype="float16"))
    puzzle.check(far[:, None])
    puzzle.check(far[None, :])


@cases(steps_of_16=17, steps_of_32=33, steps_of_64=65)
def test_masks_steps_beyond_32_bits(K):
    # Only the stride times the length of a step overflows.
    puzzle.check_offsets(far_apart(integers(K, dtype="float16"))[None, :])


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(randn(1, 16, dtype="float16").expand(66_000, 16))


def test_masks_limits():
    puzzle.limits(
        lambda M, K: large_at_the_end(randn(M, K), randn(K, M))[:1], dtypes=FLOATS, M=2**12, K=2**17
    )


# Any value.


@dtypes("bfloat16", "float32")
def test_numerics_beyond_the_range_of_float16(dtype):
    puzzle.check(randn(40, 70, dtype=dtype) * 1e6)


def test_numerics_special_values():
    a = randn(290, 70)
    a[3, 0], a[5, 69], a[7, 33] = INF, NAN, -INF
    a[180, :] = 0
    puzzle.check(a)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(90, 70, dtype="float16"),), "a"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_ragged():
    puzzle.traffic(randn(600, 64)).check(
        writes=1, launches=1, idle=0, dot_macs=0.7 * 640 * 640 * 64
    )


def test_traffic_transposed():
    puzzle.traffic(randn(64, 256, dtype="float16").T).check(writes=1, launches=1, sectors=1.1)


def test_compiles_small_tiles():
    puzzle.compiles(randn(256, 64, dtype="float16"))


def test_compiles_sizes_of_1():
    # The compiler takes an argument of 1 for a constant.
    puzzle.compiles(randn(1, 1, dtype="float16"))
    puzzle.compiles(randn(1, 64, dtype="float16"))


def test_compiles_ragged():
    puzzle.compiles(randn(35, 2067, dtype="bfloat16").T)


def test_compiles_large():
    puzzle.compiles(randn(1040, 64, dtype="float16"))
    puzzle.compiles(randn(1041, 67, dtype="float16"))


def test_speedup():
    a = randn(8192, 8192, dtype="bfloat16")
    puzzle.race(a, at_least=0.9, operations=(8192**3, "bfloat16"), baseline="solution")
