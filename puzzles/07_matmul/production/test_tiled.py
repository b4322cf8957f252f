"""Tests of 07.2, tiled matmul, in production."""

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    cases,
    far_apart,
    integers,
    large_at_the_end,
    matrices,
    offset,
    randn,
    strided,
)
from course.values import special_values

puzzle = challenge("tiled_matmul", input_precision="tf32")


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


def test_masks_one_row_repeated():
    puzzle.check(integers(1, 40).expand(50, 40), integers(40, 1).expand(40, 30))


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


def test_masks_limits():
    puzzle.limits(
        lambda M, N, K: large_at_the_end(*matrices(M, N, K)),
        dtypes=FLOATS,
        M=2**17,
        N=2**17,
        K=2**17,
    )


# Any value.


@cases(first=0, last=69)
def test_numerics_special_values(k):
    a, b = matrices(20, 24, 70)
    a[3, k], a[5, k], a[7, k] = float("inf"), float("nan"), 0.0
    puzzle.check(a, b)
    b[k, 4] = float("-inf")
    puzzle.check(a, b)


test_numerics_each_special_value = special_values(
    puzzle, lambda: matrices(20, 24, 70, "float16"), "a b"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_transposed():
    M, N = 64, 96
    puzzle.traffic(randn(40, M).T, randn(N, 40).T).check(
        reads={"a": N // 32, "b": M // 32}, writes=1, launches=1
    )


def test_traffic_long_sums():
    puzzle.traffic(*matrices(16, 16, 4160, "float16")).check(writes=1, launches=1)


def test_compiles_ragged():
    puzzle.compiles(randn(35, 67, dtype="float16").T, randn(35, 33, dtype="float16"))


def test_speedup():
    inputs = matrices(4096, 4096, 4096, "float16")
    work = (2 * 4096**3, "float16")
    puzzle.race(*inputs, at_least=0.9, operations=work, baseline="solution")
