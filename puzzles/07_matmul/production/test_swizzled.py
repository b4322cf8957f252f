"""Tests of 07.3, swizzled matmul, in production."""

from course.challenge import broken_rule, challenge
from course.inputs import (
    FLOATS,
    cases,
    dtypes,
    far_apart,
    integers,
    large_at_the_end,
    matrices,
    offset,
    randn,
    strided,
)
from course.values import special_values

puzzle = challenge("swizzled_matmul", input_precision="tf32")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_a_is_not_a_matrix():
    a, b = matrices(8, 6, 5)
    puzzle.check_or_raises(a[0], b, names="a")
    puzzle.check_or_raises(a[None], b, names="a")


def test_shapes_a_of_another_dtype():
    a, b = matrices(8, 6, 5)
    puzzle.check_or_raises(a.double(), b.double(), names="a")
    puzzle.check_or_raises(integers(8, 5, dtype="int32"), b, names="a")


def test_shapes_b_is_not_a_matrix():
    a, b = matrices(8, 6, 5)
    puzzle.check_or_raises(a, b[:, 0], names="b")
    puzzle.check_or_raises(a, b[:, :, None], names="b")


def test_shapes_b_does_not_fit_a():
    a, b = matrices(8, 6, 5)
    puzzle.check_or_raises(a, b[:4], names="b")
    puzzle.check_or_raises(a, b.T, names="b")
    puzzle.check_or_raises(a, b.half(), names="b")


# Any size and layout.


def test_masks_outer_product():
    puzzle.check(*matrices(40, 70, 1))


def test_masks_both_transposed():
    puzzle.check(integers(56, 40).T, integers(24, 56).T)


def test_masks_all_strides_differ():
    puzzle.check(strided(integers(37, 50), 2, 3), strided(integers(50, 41), 5, 2))


def test_masks_unaligned():
    puzzle.check(offset(integers(40, 56)), offset(integers(56, 40), 3))


def test_masks_offsets_beyond_32_bits():
    far, near = far_apart(integers(3, dtype="float16")), integers(3, dtype="float16")
    puzzle.check(far[:, None], near[None, :])
    puzzle.check(near[:, None], far[None, :])
    puzzle.check(far[None, :], near[:, None])
    puzzle.check(near[None, :], far[:, None])


@cases(steps_of_16=17, steps_of_32=33, steps_of_64=65)
def test_masks_steps_beyond_32_bits(K):
    # Only the stride times the length of a step overflows.
    far, near = far_apart(integers(K, dtype="float16")), integers(K, dtype="float16")
    puzzle.check_offsets(far[None, :], near[:, None])
    puzzle.check_offsets(near[None, :], far[:, None])


def test_masks_result_beyond_32_bits():
    a, b = matrices(1, 1, 16, "float16")
    puzzle.check_large_offsets(a.expand(2**16, 16), b.expand(16, 2**15 + 1))


def test_masks_more_tiles_than_axis_1_takes():
    a, b = matrices(1, 1, 1, "float16")
    puzzle.check_grid(a, b.expand(1, 2**24 + 1))
    puzzle.check_grid(a.expand(2**23 + 1, 1), b)


def test_masks_limits():
    puzzle.limits(
        lambda M, N, K: large_at_the_end(*matrices(M, N, K)),
        dtypes=FLOATS,
        M=2**17,
        N=2**17,
        K=2**17,
    )


# Any value.


@dtypes("bfloat16", "float32")
def test_numerics_beyond_the_range_of_float16(dtype):
    a, b = matrices(20, 24, 70, dtype)
    puzzle.check(a * 1e6, b)


test_numerics_each_special_value = special_values(
    puzzle, lambda: matrices(20, 24, 70, "float16"), "a b"
)


# Traffic, compilation and speed of what the first level leaves out.


@cases(long_rows_of_a=(64, 96, 1056, "float16"), float32=(64, 96, 32, "float32"))
def test_traffic_tiles(M, N, K, dtype):
    grid = puzzle.traffic(*matrices(M, N, K, dtype)).grid
    if grid != (6, 1, 1):
        raise broken_rule(
            f"the grid is {grid} for {M} x {N}; tiles of 32 x 32 take (6, 1, 1)",
            "see Tiles in the spec",
        )


def test_traffic_transposed():
    puzzle.traffic(randn(40, 64).T, randn(96, 40).T).check(writes=1, launches=1)


def test_traffic_long_sums():
    puzzle.traffic(*matrices(16, 16, 4160, "float16")).check(writes=1, launches=1)


def test_compiles_small_tiles():
    puzzle.compiles(*matrices(64, 128, 64, "float16"))


def test_compiles_ragged():
    puzzle.compiles(randn(35, 67, dtype="float16").T, randn(35, 33, dtype="float16"))


def test_speedup():
    inputs = matrices(8192, 8192, 8192, "float16")
    work = (2 * 8192**3, "float16")
    puzzle.race(*inputs, at_least=0.9, operations=work, baseline="solution")
