"""Tests of 17.3, descriptor matmul, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, cases, integers, large_at_the_end, matrices, offset, strided
from course.values import special_values

puzzle = challenge("descriptor_matmul", input_precision="tf32")
INF, NAN = float("inf"), float("nan")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_a_is_not_a_matrix():
    a, b = matrices(8, 8, 8)
    puzzle.check_or_raises(a[0], b, names="a")
    puzzle.check_or_raises(a[None], b, names="a")


def test_shapes_a_of_another_dtype():
    a, b = matrices(8, 8, 8)
    puzzle.check_or_raises(a.double(), b.double(), names="a")
    puzzle.check_or_raises(integers(8, 8, dtype="int32"), b, names="a")


def test_shapes_b_is_not_a_matrix():
    a, b = matrices(8, 8, 8)
    puzzle.check_or_raises(a, b[:, 0], names="b")
    puzzle.check_or_raises(a, b[:, :, None], names="b")


def test_shapes_b_does_not_fit_a():
    a, b = matrices(8, 16, 8)
    puzzle.check_or_raises(a, b[:4], names="b")
    puzzle.check_or_raises(a, b.T, names="b")
    puzzle.check_or_raises(a, b.half(), names="b")


# Any layout.


@cases(fewest_columns=(70, 4, 40), shortest_inner_size=(40, 72, 4), ragged=(67, 36, 132))
def test_shapes_rows_of_16_bytes(M, N, K):
    puzzle.check(*matrices(M, N, K))


def test_masks_rows_of_larger_matrices():
    a, b = integers(50, 96)[:, :40], integers(60, 128)[8:48, 16:86]
    puzzle.check(a, b[:, :68])


def test_masks_unaligned_by_whole_16_bytes():
    puzzle.check(offset(integers(40, 56), 4), offset(integers(56, 40), 8))


@cases(
    a_transposed=(lambda a, b: (a.T.contiguous().T, b), "a"),
    b_transposed=(lambda a, b: (a, b.T.contiguous().T), "b"),
    a_not_aligned=(lambda a, b: (offset(a), b), "a"),
    b_not_aligned=(lambda a, b: (a, offset(b, 3)), "b"),
    gaps_in_the_rows_of_a=(lambda a, b: (strided(a, 1, 2), b), "a"),
    gaps_in_the_rows_of_b=(lambda a, b: (a, strided(b, 1, 4)), "b"),
    one_row_repeated=(lambda a, b: (a[:1].expand(a.shape), b), "a"),
    rows_of_b_overlap=(lambda a, b: (a, integers(336).as_strided((72, 48), (4, 1))), "b"),
    one_column_repeated=(lambda a, b: (a, b[:, :1].expand(b.shape)), "b"),
    odd_rows_of_a=(lambda a, b: (integers(40, 71), b[:71]), "a"),
    odd_rows_of_b=(lambda a, b: (a, integers(72, 47)), "b"),
    odd_rows_of_c=(lambda a, b: (a, integers(47, 72).T), "b"),
)
def test_masks_what_tma_cannot_address(change, naming):
    puzzle.check_or_raises(*change(*matrices(40, 48, 72, make=integers)), names=naming)


@cases(
    a_not_aligned=(lambda a, b: (offset(a, 4), b), "a"),
    b_not_aligned=(lambda a, b: (a, offset(b, 4)), "b"),
    rows_of_a=(lambda a, b: (a[:, :68].contiguous(), b[:68]), "a"),
    rows_of_b=(lambda a, b: (a, b[:, :44].contiguous()), "b"),
    rows_of_c=(lambda a, b: (a, b.T.contiguous()[:44].T), "b"),
)
def test_masks_what_tma_cannot_address_in_16_bits(change, naming):
    puzzle.check_or_raises(*change(*matrices(40, 48, 72, "float16", make=integers)), names=naming)


def test_masks_limits():
    eights = range(8, 2**17, 8)
    puzzle.limits(
        lambda M, N, K: large_at_the_end(*matrices(M, N, K)),
        dtypes=FLOATS,
        M=2**17,
        N=eights,
        K=eights,
    )


# Any value.


def test_numerics_beyond_the_range_of_float16():
    a, b = matrices(20, 24, 72)
    puzzle.check(a * 1e6, b)


@cases(first=0, last=71)
def test_numerics_special_values(k):
    a, b = matrices(300, 272, 72)
    a[3, k], a[5, k], a[7, k] = INF, NAN, 0.0
    b[k, 4] = -INF
    puzzle.check(a, b)


# Compilation and speed of what the first level leaves out.


test_numerics_each_special_value = special_values(
    puzzle, lambda: matrices(70, 72, 72, "float16"), "a b"
)


def test_compiles_small_tiles():
    puzzle.compiles(*matrices(64, 128, 64, "float16"))


def test_compiles_ragged():
    puzzle.compiles(*matrices(67, 40, 40, "bfloat16"))


def test_speedup():
    inputs = matrices(4096, 4096, 4096, "bfloat16")
    work = (2 * 4096**3, "bfloat16")
    puzzle.race(*inputs, at_least=0.9, operations=work, baseline="solution")
