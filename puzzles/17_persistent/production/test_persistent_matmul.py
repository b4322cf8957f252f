"""Tests of 17.2, persistent matmul, in production."""

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

puzzle = challenge("persistent_matmul", input_precision="tf32")
INF, NAN = float("inf"), float("nan")


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
    puzzle.check(strided(integers(137, 50), 2, 3), strided(integers(50, 241), 5, 2))


def test_masks_unaligned():
    puzzle.check(offset(integers(40, 56)), offset(integers(56, 40), 3))


def test_masks_one_row_repeated():
    puzzle.check(integers(1, 40).expand(50, 40), integers(40, 1).expand(40, 30))


@cases(rows_are_aligned=(1032, 264, 264), rows_are_not=(1031, 261, 263))
def test_masks_large(M, N, K):
    # Where a kernel may load in another way.
    puzzle.check(*matrices(M, N, K, "float16", make=integers))


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
    x = randn(1, 1, dtype="float16")
    with puzzle.given(multiprocessors=2**30):
        puzzle.check_large_offsets(x.expand(2**16 + 1, 1), x.expand(1, 2**15))


def test_masks_limits():
    puzzle.limits(
        lambda M, N, K: large_at_the_end(*matrices(M, N, K)),
        dtypes=FLOATS,
        M=2**17,
        N=2**17,
        K=2**17,
    )


# Any value.


def test_numerics_beyond_the_range_of_float16():
    a, b = matrices(20, 24, 70)
    puzzle.check(a * 1e6, b)


@cases(first=0, last=69)
def test_numerics_special_values(k):
    a, b = matrices(300, 270, 70)
    a[3, k], a[5, k], a[7, k] = INF, NAN, 0.0
    b[k, 4] = -INF
    puzzle.check(a, b)


# Compilation and speed of what the first level leaves out.


test_numerics_each_special_value = special_values(
    puzzle, lambda: matrices(70, 72, 72, "float16"), "a b"
)


def test_compiles_small_tiles():
    puzzle.compiles(*matrices(64, 128, 64, "float16"))


@cases(outer_product=(1025, 1100, 1), column=(1025, 1, 5), row=(1, 1025, 5))
def test_compiles_vectors(M, N, K):
    puzzle.compiles(*matrices(M, N, K))


def test_compiles_large():
    puzzle.compiles(*matrices(2048, 1024, 64, "float16"))


def test_compiles_ragged():
    puzzle.compiles(randn(35, 67, dtype="bfloat16").T, randn(35, 33, dtype="bfloat16"))


def test_speedup():
    inputs = matrices(4096, 4096, 4096, "bfloat16")
    work = (2 * 4096**3, "bfloat16")
    puzzle.race(*inputs, at_least=0.9, operations=work, baseline="solution")
