"""Tests of 19.4, Gluon matmul, in production."""

from course.challenge import challenge
from course.inputs import HALVES, cases, integers, large_at_the_end, matrices, offset, strided
from course.values import special_values

puzzle = challenge("gluon_matmul", capability=(9, 0))
INF, NAN = float("inf"), float("nan")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_a_is_not_a_matrix():
    a, b = matrices(8, 8, 8, "float16")
    puzzle.check_or_raises(a[0], b, names="a")
    puzzle.check_or_raises(a[None], b, names="a")


def test_shapes_a_of_another_dtype():
    a, b = matrices(8, 8, 8)
    puzzle.check_or_raises(a, b, names="a")
    puzzle.check_or_raises(a.double(), b.double(), names="a")
    puzzle.check_or_raises(integers(8, 8, dtype="int32"), b, names="a")


def test_shapes_b_is_not_a_matrix():
    a, b = matrices(8, 8, 8, "float16")
    puzzle.check_or_raises(a, b[:, 0], names="b")
    puzzle.check_or_raises(a, b[:, :, None], names="b")


def test_shapes_b_does_not_fit_a():
    a, b = matrices(8, 16, 8, "float16")
    puzzle.check_or_raises(a, b[:4], names="b")
    puzzle.check_or_raises(a, b.T, names="b")
    puzzle.check_or_raises(a, b.bfloat16(), names="b")


# Any layout.


def test_masks_rows_of_larger_matrices():
    a, b = integers(50, 96, dtype="float16")[:, :40], integers(60, 128, dtype="float16")
    puzzle.check(a, b[8:48, 16:88])


def test_masks_unaligned_by_whole_16_bytes():
    a, b = matrices(40, 40, 56, "float16", make=integers)
    puzzle.check(offset(a, 8), offset(b, 16))


@cases(
    a_transposed=(lambda a, b: (a.T.contiguous().T, b), "a"),
    b_transposed=(lambda a, b: (a, b.T.contiguous().T), "b"),
    a_not_aligned=(lambda a, b: (offset(a, 4), b), "a"),
    b_not_aligned=(lambda a, b: (a, offset(b, 4)), "b"),
    gaps_in_the_rows_of_a=(lambda a, b: (strided(a, 1, 2), b), "a"),
    gaps_in_the_rows_of_b=(lambda a, b: (a, strided(b, 1, 4)), "b"),
    one_row_repeated=(lambda a, b: (a[:1].expand(a.shape), b), "a"),
    one_column_repeated=(lambda a, b: (a, b[:, :1].expand(b.shape)), "b"),
    rows_of_a=(lambda a, b: (a[:, :68].contiguous(), b[:68]), "a"),
    rows_of_b=(lambda a, b: (a, b[:, :44].contiguous()), "b"),
    rows_of_c=(lambda a, b: (a, b[:, :44]), "b"),
)
def test_masks_what_tma_cannot_address(change, naming):
    inputs = matrices(40, 48, 72, "float16", make=integers)
    puzzle.check_or_raises(*change(*inputs), names=naming)


def test_masks_limits():
    eights = range(8, 2**17, 8)

    def build(M, N, K):
        return large_at_the_end(*matrices(M, N, K, "float16"))

    puzzle.limits(build, dtypes=HALVES, M=2**17, N=eights, K=eights)


@cases(**{f"many_rounds_{number}": number for number in range(30)})
def test_masks_other_orders(number):
    puzzle.check(*matrices(70 + number, 136, 1000, "float16", make=integers))


# Any value.


@cases(first=0, last=71)
def test_numerics_special_values(k):
    a, b = matrices(300, 272, 72, "float16")
    a[3, k], a[5, k], a[7, k] = INF, NAN, 0.0
    b[k, 4] = -INF
    puzzle.check(a, b)


test_numerics_each_special_value = special_values(
    puzzle, lambda: matrices(70, 72, 72, "float16"), "a b"
)


# Compilation and speed of what the first level leaves out.


@cases(small=(64, 128, 64), ragged=(67, 40, 40))
def test_compiles(M, N, K):
    inputs = matrices(M, N, K, "bfloat16")
    puzzle.compiles(*inputs, targets=["sm_90"], asked=["TMA loads", "wgmma in flight"], spills=0)


def test_speedup():
    inputs = matrices(4096, 4096, 4096, "bfloat16")
    work = (2 * 4096**3, "bfloat16")
    puzzle.race(*inputs, at_least=0.9, operations=work, baseline="solution")
