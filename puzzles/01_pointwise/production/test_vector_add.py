"""Tests of 01.4, vector addition, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, cases, far_apart, integers, offset, randn, strided, tensor
from course.values import special_values

puzzle = challenge("vector_add")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_vector():
    puzzle.check_or_raises(randn(4, 4), randn(4, 4), names="x")
    puzzle.check_or_raises(randn(), randn(), names="x")


def test_shapes_y_is_not_like_x():
    puzzle.check_or_raises(randn(4), randn(5), names="y")
    puzzle.check_or_raises(randn(4), randn(1), names="y")
    puzzle.check_or_raises(randn(4), randn(2, 2), names="y")
    puzzle.check_or_raises(randn(4), randn(4, dtype="float16"), names="y")


# Any size and layout.


def test_shapes_empty():
    puzzle.check(randn(0), randn(0))


@cases(x_alone=(3, 1), y_alone=(1, 3), both_differ=(2, 5))
def test_masks_strided(step_x, step_y):
    puzzle.check(strided(integers(300), step_x), strided(integers(300), step_y))


def test_masks_unaligned():
    puzzle.check(integers(300), offset(integers(300)))


def test_masks_one_element_repeated():
    puzzle.check(integers(1).expand(300), integers(300))


def test_masks_the_same_tensor_twice():
    x = integers(300)
    puzzle.check(x, x)


def test_masks_offsets_beyond_32_bits():
    x, y = integers(3, dtype="float16"), integers(3, dtype="float16")
    puzzle.check_offsets(far_apart(x), y)
    puzzle.check_offsets(x, far_apart(y))


def test_masks_result_beyond_32_bits():
    x = randn(1, dtype="float16").expand(2**31 + 77)
    puzzle.check_large_offsets(x, x)


def test_masks_limits():
    puzzle.limits(lambda N: (randn(N), randn(N)), dtypes=(*FLOATS, "int32"), N=2**21)


# Any value.


def test_numerics_int32():
    puzzle.check(integers(3000, dtype="int32"), integers(3000, dtype="int32"))


def test_numerics_integers_that_float32_cannot_hold():
    puzzle.check(tensor([2**24 + 1, 2**30 + 1, -(2**31)], "int32"), tensor([0, 2, 5], "int32"))


def test_numerics_special_values():
    inf, nan = float("inf"), float("nan")
    puzzle.check(tensor([inf, inf, nan, 3e38, -0.0]), tensor([1.0, -inf, 1.0, 3e38, -0.0]))


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(70, dtype="float16"), randn(70, dtype="float16")), "x y"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_strided():
    puzzle.traffic(strided(randn(5000), 2), strided(randn(5000), 3)).check(
        reads={"x": 1, "y": 1}, writes=1, launches=1
    )


def test_compiles_strided():
    puzzle.compiles(strided(randn(500), 3), randn(500))


def test_speedup():
    puzzle.race(randn(2**26), randn(2**26), at_least=0.9, baseline="solution")
