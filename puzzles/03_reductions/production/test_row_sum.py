"""Tests of 03.1, row sum, in production."""

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    cases,
    dtypes,
    far_apart,
    integers,
    offset,
    randn,
    strided,
    tensor,
    uniform,
)
from course.values import special_values

puzzle = challenge("row_sum")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    puzzle.check_or_raises(randn(10), names="x")
    puzzle.check_or_raises(randn(2, 3, 4), names="x")


def test_shapes_x_is_of_integers():
    puzzle.check_or_raises(integers(4, 5, dtype="int32"), names="x")


# Any size and layout.


def test_masks_masked_lanes():
    # Masked lanes of a load without `other` spoil the result here.
    puzzle.check(integers(67, 43, low=1))


@cases(more_rows_than_columns=(130, 7), ragged=(37, 5000), very_long=(1, 2**18 + 1))
def test_masks(M, N):
    puzzle.check(integers(M, N, low=1))


def test_masks_transposed():
    puzzle.check(integers(300, 41, low=1).T)


def test_masks_both_strides():
    puzzle.check(strided(integers(21, 130, low=1), 2, 3))


def test_masks_unaligned():
    puzzle.check(offset(integers(20, 256, low=1)))


@cases(rows=((1, 300), (20, 300)), columns=((20, 1), (20, 300)))
def test_masks_expanded(shape, to):
    puzzle.check(integers(*shape, low=1).expand(*to))


def test_masks_offsets_beyond_32_bits():
    x = far_apart(integers(3, low=1, dtype="float16"))
    puzzle.check(x[:, None])
    puzzle.check(x[None, :])


@cases(of_1024=1025, of_2048=2049, of_4096=4097, of_8192=8193, of_16384=16385)
def test_masks_steps_beyond_32_bits(N):
    # Only a stride times the length of a step overflows.
    puzzle.check(far_apart(integers(N, dtype="float16"))[None, :])


def test_masks_more_rows_than_axis_1_takes():
    puzzle.check_grid(integers(1, 4097, dtype="float16").expand(65537, 4097))


def test_masks_limits():
    def build(M, N):
        # The last element is the largest: the rounding of a long sum hides a small one.
        x = integers(M, N, low=1)
        x[..., -1] = 1000
        return (x,)

    puzzle.limits(build, dtypes=FLOATS, M=2**17, N=2**18)


# Any value.


@dtypes("float16", "bfloat16")
def test_numerics_accumulator_in_half_precision(dtype):
    puzzle.check(uniform(3, 9000, low=0.5, high=1.5, dtype=dtype))


def test_numerics_large_terms_cancel():
    x = randn(4, 3000)
    x[:, 7], x[:, 2900] = 1e5, -1e5
    puzzle.check(x)


def test_numerics_special_values_stay_in_their_row():
    inf, nan = float("inf"), float("nan")
    x = randn(6, 1500)
    x[0, 3], x[1, 1499], x[2, 700] = inf, -inf, nan
    x[3, 0], x[3, 1] = inf, -inf
    puzzle.check(x)
    puzzle.check(tensor([[0.0, -0.0], [inf, 1.0], [1e30, 1.0]]))


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(6, 70, dtype="float16"),), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


@cases(long=(3, 20000), very_long=(1, 2**17))
def test_traffic_of_long_rows(M, N):
    puzzle.traffic(randn(M, N)).check(reads={"x": 1}, writes=1, launches=1, sectors=1.1)


def test_traffic_transposed():
    puzzle.traffic(randn(1000, 48).T).check(reads={"x": 1}, writes=1, launches=1)


def test_compiles_one_column():
    puzzle.compiles(randn(300, 1))


def test_compiles_transposed():
    puzzle.compiles(randn(300, 41).T)


def test_speedup():
    puzzle.race(randn(16384, 4096), at_least=0.9, baseline="solution")
