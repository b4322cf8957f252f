"""Tests of 07.1, matrix times vector, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, far_apart, integers, offset, randn, strided
from course.values import special_values

puzzle = challenge("matvec")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_a_is_not_a_matrix():
    a, x = randn(8, 5), randn(5)
    puzzle.check_or_raises(x, x, names="a")
    puzzle.check_or_raises(a[None], x, names="a")


def test_shapes_a_of_another_dtype():
    a, x = randn(8, 5), randn(5)
    puzzle.check_or_raises(a.double(), x.double(), names="a")
    puzzle.check_or_raises(integers(8, 5, dtype="int32"), x, names="a")


def test_shapes_x_does_not_fit_a():
    a = randn(8, 5)
    puzzle.check_or_raises(a, randn(5, 1), names="x")
    puzzle.check_or_raises(a, randn(8), names="x")
    puzzle.check_or_raises(a, randn(1), names="x")
    puzzle.check_or_raises(a, randn(5, dtype="float16"), names="x")


# Any size and layout.


def test_masks_all_strides_differ():
    puzzle.check(strided(integers(37, 131), 2, 3), strided(integers(131, low=1), 5))


def test_masks_unaligned():
    puzzle.check(offset(integers(37, 130)), offset(integers(130, low=1), 3))


def test_masks_one_row_repeated():
    puzzle.check(integers(1, 70).expand(40, 70), integers(1).expand(70))


def test_masks_rows_beyond_32_bits():
    rows = far_apart(integers(3, dtype="float16"))
    puzzle.check(rows[:, None], integers(1, dtype="float16"))


def test_masks_columns_beyond_32_bits():
    far, near = far_apart(integers(3, dtype="float16")), integers(3, dtype="float16")
    puzzle.check(far[None, :], near)
    puzzle.check(near[None, :], far)


def test_masks_more_rows_than_axis_1_takes():
    puzzle.check_grid(randn(1, 1).expand(2**23, 1), randn(1))


def test_masks_limits():
    puzzle.limits(lambda M, K: (randn(M, K), randn(K)), dtypes=FLOATS, M=2**17, K=2**18)


# Any value.


def test_numerics_special_values():
    a = randn(5, 70)
    a[1, 0], a[2, 69], a[3, 5] = float("inf"), float("nan"), float("-inf")
    x = randn(70)
    puzzle.check(a, x)
    x[69] = float("inf")
    puzzle.check(a.nan_to_num(posinf=1.0, neginf=1.0), x)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(20, 70, dtype="float16"), randn(70, dtype="float16")), "a x"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_transposed():
    puzzle.traffic(randn(520, 72).T, randn(520)).check(
        reads={"a": 1}, writes=1, launches=1, sectors={"a": 1.1}
    )


def test_compiles_transposed():
    puzzle.compiles(randn(160, 96, dtype="float16").T, randn(160, dtype="float16"))


def test_speedup():
    a, x = randn(16384, 16384, dtype="bfloat16"), randn(16384, dtype="bfloat16")
    puzzle.race(a, x, at_least=0.9, baseline="solution")
